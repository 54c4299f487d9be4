// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryFolderIsListed fails for a resource that has a folder and is not served.
func TestEveryFolderIsListed(t *testing.T) {
	files, err := filepath.Glob("../*/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), "\nvar Resource") {
			continue
		}
		found++
		folder := filepath.Dir(file)
		group := filepath.Base(filepath.Dir(folder))
		list, err := os.ReadFile(filepath.Join("..", group, group+".go"))
		if err != nil {
			t.Errorf("group %s has no list: %v", group, err)
			continue
		}
		if name := filepath.Base(folder) + ".Resource"; !strings.Contains(string(list), name) {
			t.Errorf("pkg/registry/%[1]s/%[2]s is not served: add %[3]s to pkg/registry/%[1]s/%[1]s.go", group, filepath.Base(folder), name)
		}
	}
	if found < 20 {
		t.Errorf("only %d resources were found: the test looks in the wrong place", found)
	}
}

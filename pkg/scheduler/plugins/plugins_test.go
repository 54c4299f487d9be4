// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// Every folder is a plugin in the list; add a missing one to Default.
func TestDefault_ListsEveryFolder(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range Default() {
		// the factory's full name is <module>/plugins/<folder>.New
		name := runtime.FuncForPC(reflect.ValueOf(e.New).Pointer()).Name()
		folder := name[strings.LastIndex(name, "/")+1:]
		listed[folder[:strings.Index(folder, ".")]] = true
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !listed[e.Name()] {
			t.Errorf("folder %s is not listed in Default", e.Name())
		}
	}
}

func TestDefault_IsAProfile(t *testing.T) {
	if _, err := framework.NewProfile(pt.NewHandle(nil), Default()); err != nil {
		t.Fatal(err)
	}
}

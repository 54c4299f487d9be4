// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"minik8s.io/minik8s/test/differential/report"
)

// TestExplained: every difference that may be there stands in the documentation, and none is explained whatever it says.
func TestExplained(t *testing.T) {
	t.Parallel()
	list, err := report.ReadExplanations(strings.NewReader(explained))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(docs), "\n")
	for _, e := range list {
		if reason := "- " + strings.TrimPrefix(e.Reason, "sometimes: "); !slices.Contains(lines, reason) {
			t.Errorf("docs/differences.md does not have %q", reason)
		}
		if e.Kind == "*" && (e.Check == "*" || !strings.Contains(e.Path, ": ")) {
			t.Errorf("%s,%s,%s names neither kind nor message", e.Kind, e.Check, e.Path)
		}
		if strings.HasPrefix(e.Path, "500 ") && !strings.Contains(e.Path, ": ") {
			t.Errorf("%s,%s,%s names no message", e.Kind, e.Check, e.Path)
		}
	}
}

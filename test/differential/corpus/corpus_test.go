// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import "testing"

func TestSeedsAndScenarios(t *testing.T) {
	seeds, err := Seeds()
	if err != nil {
		t.Fatal(err)
	}
	if len(seeds) < 100 {
		t.Errorf("only %d seeds", len(seeds))
	}
	for _, s := range seeds {
		if s.Kind().Kind == "" || s.Kind().Version == "" {
			t.Errorf("%s has no kind", s.Name)
		}
	}
	all, err := Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("no scenarios")
	}
	for _, s := range all {
		if len(s.Steps) == 0 {
			t.Errorf("%s has no steps", s.Name)
		}
	}
}

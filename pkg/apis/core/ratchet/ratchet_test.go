// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ratchet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/ratchet"
)

func TestDrop(t *testing.T) {
	bad := func(name string) *field.Error { return field.Required(field.NewPath(name), "") }
	errs := field.ErrorList{bad("plain")}
	errs = append(errs, ratchet.Mark("kept", bad("a"), bad("b"))...)
	errs = append(errs, ratchet.Mark("new", bad("c"))...)
	old := func() field.ErrorList { return append(ratchet.Mark("kept", bad("d")), bad("c"), bad("plain")) }
	var got []string
	for _, e := range ratchet.Drop(errs, old) {
		got = append(got, e.Field)
	}
	if diff := cmp.Diff([]string{"plain", "c"}, got); diff != "" {
		t.Error(diff)
	}
	never := func() field.ErrorList { t.Error("the old object is validated for nothing"); return nil }
	if got := ratchet.Drop(field.ErrorList{bad("plain")}, never); len(got) != 1 {
		t.Errorf("%d errors are left, not 1", len(got))
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package signer

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateName(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 63)+".", 4)
	for _, tc := range []struct {
		name string
		want int
	}{
		{"example.com/signer", 0},
		{"example.com/ns.name", 0},
		{"", 1},
		{"signer", 1},
		{"example.com/a/b", 1},
		{"example/signer", 1},
		{"Example.com/signer", 1},
		{"example.com/Signer", 1},
		{"example.com/a..b", 1},
		{"/", 3},
		{long + "com/signer", 1},
		{long[:len(long)-1] + "/" + long + long[:len(long)-1], 2},
	} {
		if errs := ValidateName(tc.name, field.NewPath("n")); len(errs) != tc.want {
			t.Errorf("%q: %d errors, want %d: %v", tc.name, len(errs), tc.want, errs)
		}
	}
}

func TestIsKubernetes(t *testing.T) {
	for name, want := range map[string]bool{
		"kubernetes.io/x": true, "a.kubernetes.io/x": true, "akubernetes.io/x": false, "example.com/kubernetes.io": false,
	} {
		if got := IsKubernetes(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestValidateBundleName(t *testing.T) {
	for _, tc := range []struct {
		signer, name string
		ok           bool
	}{
		{"", "a.b", true},
		{"", "a:b", false},
		{"", "A", false},
		{"example.com/s", "example.com:s:a", true},
		{"example.com/s", "example.com:s:", false},
		{"example.com/s", "example.com:s:a:b", false},
		{"example.com/s", "a", false},
	} {
		if msgs := ValidateBundleName(tc.signer, tc.name, false); (len(msgs) == 0) != tc.ok {
			t.Errorf("%q of %q: %v, want ok = %v", tc.name, tc.signer, msgs, tc.ok)
		}
	}
}

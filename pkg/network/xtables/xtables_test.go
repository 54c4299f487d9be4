// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package xtables

import (
	"errors"
	"strings"
	"testing"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/namespacetest"
)

// A table with rules of the nft program is told from one without rules, and can be changed and asked all the same.
func TestForeign(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	machinetest.Programs(t, "iptables", "nft")
	n := namespacetest.New(t)
	if !strings.Contains(n.Run(t, "iptables", "--version"), "nf_tables") {
		machinetest.Lacks(t, "iptables that works by nf_tables")
	}
	p := Programs{NetNS: n.Path()}
	const jump = `-m comment --comment "of ours" -j OURS`
	has := func(rule string, want bool) {
		t.Helper()
		if got, err := p.Has(t.Context(), "filter", "FORWARD", rule); err != nil || got != want {
			t.Errorf("%s: %t, %v", rule, got, err)
		}
	}
	if err := p.Restore(t.Context(), "*filter\n:OURS - [0:0]\n-I FORWARD 1 "+jump+"\nCOMMIT\n"); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []bool{true, false} {
		saved, err := p.Save(t.Context(), "filter")
		if errors.Is(err, ErrForeign) == shown || shown && (err != nil || !strings.Contains(saved, "-A FORWARD "+jump)) {
			t.Errorf("shown: %t, got %q, %v", shown, saved, err)
		}
		has(jump, true)
		has("-j OURS", false)
		has("-j THEIRS", false)
		if shown {
			n.Run(t, "nft", "add", "rule", "ip", "filter", "FORWARD", "numgen", "random", "mod", "2", "0", "accept") // iptables has no words for it
		}
	}
}

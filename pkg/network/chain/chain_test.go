// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/namespacetest"
	"minik8s.io/minik8s/pkg/network/ruleset"
)

var (
	forward = Chain{
		Table: "filter", Name: "OURS-FWD", From: "FORWARD", Rules: [][]string{{"-s", "10.1.0.0/16", "-j", "ACCEPT"}, {"-d", "10.1.0.0/16", "-j", "ACCEPT"}},
		Jumps: [][]string{{"-m", "comment", "--comment", "ours:c", "-j", "OURS-FWD"}},
	}
	masquerade = Chain{
		Table: "nat", Name: "OURS-MASQ", From: "POSTROUTING", Rules: [][]string{{"-d", "224.0.0.0/4", "-j", "RETURN"}, {"-j", "MASQUERADE"}},
		Jumps: [][]string{{"-s", "10.1.0.0/24", "-j", "OURS-MASQ"}, {"-s", "10.1.1.0/24", "-j", "OURS-MASQ"}},
	}
)

func TestMissing(t *testing.T) {
	t.Parallel()
	rules := []string{"-A OURS-FWD -s 10.1.0.0/16 -j ACCEPT", "-A OURS-FWD -d 10.1.0.0/16 -j ACCEPT"}
	all := append([]string{":OURS-FWD - [0:0]"}, rules...)
	jump := []string{"-I FORWARD 1 -m comment --comment ours:c -j OURS-FWD"}
	behind := forward
	behind.Behind = "PROXY-"
	others := []string{"-A FORWARD -j PROXY-1", "-A FORWARD -j DOCKER-USER", "-A FORWARD -j PROXY-2", "-A FORWARD -j ACCEPT"}
	is := []string{"-A FORWARD -j DOCKER-USER", `-A FORWARD -m comment --comment "ours:c" -j OURS-FWD`}
	for _, tc := range []struct {
		name       string
		chain      Chain // forward if there is none
		have, from []string
		gone       bool
		want       []string
	}{
		{name: "all is right", have: rules, from: is},
		{name: "nothing is there", gone: true, want: append(all[:3:3], jump...)},
		{name: "no jump", have: rules, from: is[:1], want: jump},
		{name: "a rule is missing", have: rules[:1], from: is, want: all},
		{name: "a rule is somebody else's", have: append(rules[:2:2], "-A OURS-FWD -j DROP"), from: is, want: all},
		{name: "behind others", chain: behind, have: rules, from: others, want: []string{"-I FORWARD 4 -m comment --comment ours:c -j OURS-FWD"}},
		{name: "behind one", chain: behind, have: rules, from: []string{"-A FORWARD -j PROXY-1"}, want: []string{"-I FORWARD 2 -m comment --comment ours:c -j OURS-FWD"}},
		{name: "behind nobody", chain: behind, have: rules, from: others[1:2], want: jump},
		{name: "another order", have: []string{rules[1], rules[0]}, from: is, want: all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := tc.chain
			if c.Name == "" {
				c = forward
			}
			if diff := cmp.Diff(tc.want, c.missing(tc.have, !tc.gone, tc.from)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// broken are programs that fail for one table.
type broken struct {
	table    string
	restored []string
}

func (b *broken) Rules(_ context.Context, table, _ string) ([]string, bool, error) {
	if table == b.table {
		return nil, false, errors.New("no such table")
	}
	return nil, false, nil
}

func (b *broken) Restore(_ context.Context, text string) error {
	b.restored = append(b.restored, text)
	return nil
}

func (b *broken) Has(context.Context, string, string, string) (bool, error) { return false, nil }

// A table that the kernel lacks keeps no other from being right.
func TestEach_OneFails(t *testing.T) {
	t.Parallel()
	p := &broken{table: "filter"}
	if err := each(p, []Chain{forward, masquerade}, ensure); err == nil || !strings.Contains(err.Error(), "chain OURS-FWD: no such table") {
		t.Errorf("error %v", err)
	}
	if len(p.restored) != 1 || !strings.HasPrefix(p.restored[0], "*nat\n:OURS-MASQ ") {
		t.Errorf("restored %q", p.restored)
	}
}

// The kernel has what is described, in both families, whatever somebody does to it, and in the end nothing.
func TestReal(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	machinetest.Programs(t, "iptables", "ip6tables", "iptables-save")
	for _, family := range []struct {
		name, program string
		six           bool
		list          []Chain
	}{
		{"IPv4", "iptables", false, []Chain{forward, masquerade}},
		{"IPv6", "ip6tables", true, []Chain{{Table: "filter", Name: "OURS", From: "FORWARD", Rules: [][]string{{"-s", "fd00::/64", "-j", "ACCEPT"}}, Jumps: [][]string{{"-j", "OURS"}}}}},
	} {
		t.Run(family.name, func(t *testing.T) {
			n := namespacetest.New(t)
			rules := func() (all []string) {
				for line := range strings.Lines(n.Run(t, family.program+"-save")) {
					if strings.HasPrefix(line, "-A ") {
						all = append(all, strings.TrimSpace(line))
					}
				}
				return all
			}
			do := func(f func(bool, []Chain) error) {
				t.Helper()
				if err := n.Do(func() error { return f(family.six, family.list) }); err != nil {
					t.Fatal(err)
				}
			}
			n.Run(t, family.program, "-A", "FORWARD", "-j", "DROP")
			before := rules()
			do(Ensure)
			made := rules()
			name := family.list[0].Name
			if !strings.Contains(strings.Join(made, "\n"), "-j "+name+"\n-A FORWARD -j DROP") {
				t.Errorf("no jump comes before what was there: %q", made)
			}
			generation := func() (number uint32) {
				t.Helper()
				_ = n.Do(func() error { number, _ = ruleset.Generation(); return nil }) // always 0 where they have none
				return number
			}
			right := generation()
			do(Ensure)
			if now := generation(); now != right {
				t.Error("what is right was written again")
			}
			for _, harm := range [][]string{
				{"-A", name, "-j", "DROP"}, {"-D", name, "1"}, {"-F", name}, {"-D", "FORWARD", "1"},
			} {
				n.Run(t, append([]string{family.program}, harm...)...)
				do(Ensure)
				if diff := cmp.Diff(made, rules()); diff != "" {
					t.Errorf("after %q (-want +got):\n%s", harm, diff)
				}
			}
			n.Run(t, family.program, "-A", "FORWARD", "-p", "tcp", "-m", "comment", "--comment", "of a user", "-j", name)
			for range 2 {
				do(Remove)
				if diff := cmp.Diff(before, rules()); diff != "" || strings.Contains(n.Run(t, family.program+"-save"), "OURS") {
					t.Errorf("after the removal (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestReal_Foreign: beside rules of the nft program, for which iptables shows none of a chain, a jump is not made again and again, comes back
// when it is gone, and can be removed.
func TestReal_Foreign(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	machinetest.Programs(t, "iptables", "nft")
	n := namespacetest.New(t)
	if !strings.Contains(n.Run(t, "iptables", "--version"), "nf_tables") {
		machinetest.Lacks(t, "iptables that works by nf_tables")
	}
	do := func(f func(bool, []Chain) error, jumps int) {
		t.Helper()
		if err := n.Do(func() error { return f(false, []Chain{forward}) }); err != nil {
			t.Fatal(err)
		}
		if shown := n.Run(t, "nft", "list", "chain", "ip", "filter", "FORWARD"); strings.Count(shown, "jump OURS-FWD") != jumps {
			t.Errorf("not %d jumps:\n%s", jumps, shown)
		}
	}
	do(Ensure, 1)
	n.Run(t, "nft", "add", "rule", "ip", "filter", "FORWARD", "numgen", "random", "mod", "2", "0", "accept") // iptables has no words for it
	do(Ensure, 1)
	do(Ensure, 1)
	n.Run(t, "iptables", "-D", "FORWARD", "-m", "comment", "--comment", "ours:c", "-j", "OURS-FWD")
	do(Ensure, 1)
	do(Remove, 0)
	do(Remove, 0)
	if all := n.Run(t, "nft", "list", "table", "ip", "filter"); strings.Contains(all, "OURS-FWD") || !strings.Contains(all, "numgen") {
		t.Errorf("after the removal:\n%s", all)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/machinetest"
	nft "minik8s.io/minik8s/pkg/network/nftables"
	"minik8s.io/minik8s/pkg/policy/rules"
)

// ownNamespace puts the test into a network namespace, which ends with its thread.
func ownNamespace(t *testing.T) {
	t.Helper()
	machinetest.Root(t, "to make a network namespace")
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		machinetest.Lacks(t, "needs a network namespace: %v", err)
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// everything has each kind of set, match and verdict.
func everything() *rules.Table {
	match := func(verdict rules.Verdict, target string, matches ...rules.Match) rules.Rule {
		return rules.Rule{Matches: matches, Verdict: verdict, Target: target}
	}
	return &rules.Table{
		Sets: []rules.Set{
			{Name: "addresses-4", Kind: rules.Addresses, Elements: []rules.Element{{Addr: addr("10.0.0.1")}, {Addr: addr("10.0.0.2")}}},
			{Name: "addresses-6", Kind: rules.Addresses, Six: true, Elements: []rules.Element{{Addr: addr("fd00::1")}}},
			{Name: "ranges-4", Kind: rules.Ranges, Elements: []rules.Element{
				{Addr: addr("0.0.0.0"), Last: addr("9.255.255.255")}, {Addr: addr("10.0.0.5"), Last: addr("10.0.0.5")},
				{Addr: addr("192.0.0.0"), Last: addr("255.255.255.255")},
			}},
			{Name: "all-4", Kind: rules.Ranges, Elements: []rules.Element{{Addr: addr("0.0.0.0"), Last: addr("255.255.255.255")}}},
			{Name: "ranges-6", Kind: rules.Ranges, Six: true, Elements: []rules.Element{
				{Addr: addr("fd00::"), Last: addr("fd00::ffff")}, {Addr: addr("fd01::"), Last: addr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")},
			}},
			{Name: "endpoints-4", Kind: rules.Endpoints, Elements: []rules.Element{
				{Addr: addr("10.0.0.1"), Protocol: corev1.ProtocolTCP, Port: 80}, {Addr: addr("10.0.0.1"), Protocol: corev1.ProtocolUDP, Port: 80},
			}},
			{Name: "endpoints-6", Kind: rules.Endpoints, Six: true, Elements: []rules.Element{{Addr: addr("fd00::1"), Protocol: corev1.ProtocolSCTP, Port: 80}}},
			{Name: "pairs-4", Kind: rules.Pairs, Elements: []rules.Element{{Addr: addr("10.0.0.1")}}},
			{Name: "pairs-6", Kind: rules.Pairs, Six: true, Elements: []rules.Element{{Addr: addr("fd00::1")}}},
			{Name: "pods-4", Kind: rules.Chains, Elements: []rules.Element{{Addr: addr("10.0.0.1"), Chain: "one"}, {Addr: addr("10.0.0.2"), Chain: "two"}}},
			{Name: "pods-6", Kind: rules.Chains, Six: true, Elements: []rules.Element{{Addr: addr("fd00::1"), Chain: "one"}}},
		},
		Chains: []rules.Chain{
			{Name: "two", Rules: []rules.Rule{
				match(rules.Accept, "", rules.Match{Field: rules.Called, Set: "endpoints-4"}),
				match(rules.Accept, "", rules.Match{Field: rules.Called, Six: true, Set: "endpoints-6"}),
				match(rules.Accept, "", rules.Match{Field: rules.Protocol, Is: corev1.ProtocolSCTP}, rules.Match{Field: rules.Port, First: 1, Last: 9}),
				match(rules.Drop, ""),
			}},
			{Name: "one", Rules: []rules.Rule{
				match(rules.Jump, "two", rules.Match{Field: rules.Client, Set: "ranges-4", Not: true}),
				match(rules.Jump, "two", rules.Match{Field: rules.Server, Set: "all-4"}),
				match(rules.Accept, "", rules.Match{Field: rules.Server, Six: true, Set: "ranges-6"}),
				match(rules.Accept, "", rules.Match{Field: rules.Client, Set: "addresses-4"}),
				match(rules.Accept, "", rules.Match{Field: rules.Client, Six: true, Set: "addresses-6"}),
				match(rules.Drop, ""),
			}},
			{Name: "base", Hook: rules.Forward, Rules: []rules.Rule{
				match(rules.Accept, "", rules.Match{Field: rules.Asked, Addr: addr("10.96.0.10")}),
				match(rules.Accept, "", rules.Match{Field: rules.Asked, Six: true, Addr: addr("fd00::a")}),
				match(rules.Accept, "", rules.Match{Field: rules.Self, Set: "pairs-4"}),
				match(rules.Accept, "", rules.Match{Field: rules.Self, Six: true, Set: "pairs-6"}),
				match(rules.Goto, "pods-4", rules.Match{Field: rules.Client}),
				match(rules.Goto, "pods-6", rules.Match{Field: rules.Client, Six: true}),
				match(rules.Goto, "pods-4", rules.Match{Field: rules.Untracked}, rules.Match{Field: rules.Source}),
				match(rules.Goto, "pods-6", rules.Match{Field: rules.Untracked}, rules.Match{Field: rules.Destination, Six: true}),
			}},
		},
	}
}

// is checks what the kernel has.
func is(t *testing.T, what, name string, want *rules.Table) {
	t.Helper()
	kernel := nft.Table{Family: unix.NFPROTO_INET, Name: name}
	got, err := kernel.Read()
	if err != nil {
		t.Fatal(err)
	}
	if want == nil {
		if got != nil {
			t.Errorf("%s: there is a table: %v", what, got)
		}
		return
	}
	if got == nil {
		t.Fatalf("%s: there is no table", what)
	}
	if wanted := stateOf(want); !got.Equal(wanted) {
		t.Errorf("%s: the kernel has something else (-want +got):\n%s%s", what, cmp.Diff(wanted.Elements, got.Elements),
			cmp.Diff(slices.Sorted(maps.Keys(wanted.Chains)), slices.Sorted(maps.Keys(got.Chains))))
	}
}

func TestApply(t *testing.T) {
	ownNamespace(t)
	const name = "minik8s-policy-test"
	table := New("", name)
	want := everything()
	apply := func(what string, tab *Table, want *rules.Table) {
		t.Helper()
		if err := tab.Apply(want); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		is(t, what, name, want)
	}
	apply("first", table, want)
	apply("a second process", New("", name), want)
	if changed, err := table.change(stateOf(want)); changed || err != nil {
		t.Errorf("what is equal is changed: %t, %v", changed, err)
	}

	want = everything()
	want.Sets[0].Elements = want.Sets[0].Elements[1:]
	want.Sets[9].Elements = []rules.Element{{Addr: addr("10.0.0.1"), Chain: "two"}, {Addr: addr("10.0.0.3"), Chain: "one"}}
	want.Chains[1].Rules = want.Chains[1].Rules[3:]
	want.Chains = append(want.Chains, rules.Chain{Name: "three"})
	apply("changes", table, want)

	want = &rules.Table{Sets: everything().Sets[:1], Chains: []rules.Chain{{Name: "base", Hook: rules.Forward}}}
	apply("most of it is gone", table, want)
	apply("and comes again", table, everything())

	if err := table.Remove(); err != nil {
		t.Fatal(err)
	}
	is(t, "removed", name, nil)
	if err := table.Remove(); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

func TestApply_Refused(t *testing.T) {
	ownNamespace(t)
	const name = "minik8s-policy-test"
	table := New("", name)
	good := &rules.Table{Chains: []rules.Chain{{Name: "base", Hook: rules.Forward}}}
	if err := table.Apply(good); err != nil {
		t.Fatal(err)
	}
	bad := &rules.Table{Chains: []rules.Chain{{Name: "another"}, {Name: "base", Hook: rules.Forward, Rules: []rules.Rule{{Verdict: rules.Jump, Target: "nowhere"}}}}}
	err := table.Apply(bad)
	if err == nil {
		t.Fatal("a jump to nowhere was taken")
	}
	t.Log(err)
	is(t, "after a refusal", name, good)
	if err := table.Apply(good); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

func TestHeal(t *testing.T) {
	ownNamespace(t)
	const name = "minik8s-policy-test"
	table := New("", name)
	want := everything()
	if err := table.Apply(want); err != nil {
		t.Fatal(err)
	}
	key := func(a string) nft.Key { return nft.Key{Bytes: string(addr(a).AsSlice())} }
	accept := compile(rules.Rule{Verdict: rules.Accept})
	for _, tt := range []struct {
		name   string
		damage func(have, want *nft.State)
		amiss  bool
	}{
		{"nothing", func(_, _ *nft.State) {}, false},
		{"a chain is empty", func(have, want *nft.State) { have.AddChain("one", nil, accept); want.AddChain("one", nil) }, true},
		{"a rule more", func(have, want *nft.State) { have.AddChain("one", nil); want.AddChain("one", nil, accept) }, true},
		{"a chain more", func(_, want *nft.State) { want.AddChain("theirs", nil) }, true},
		{"an element less", func(have, _ *nft.State) { have.AddElement("addresses-4", key("10.0.0.1"), nft.Data{}) }, true},
		{"an element more", func(_, want *nft.State) { want.AddElement("addresses-4", key("10.0.0.9"), nft.Data{}) }, true},
		{"the table is gone", nil, true},
		{"others' rules", nil, false},
	} {
		kernel, before, after := nft.Table{Family: unix.NFPROTO_INET, Name: name}, nft.NewState(), nft.NewState()
		switch tt.name {
		case "the table is gone":
			after = nil
		case "others' rules":
			kernel.Name, before = "others", nil
		default:
			tt.damage(before, after)
		}
		if _, err := kernel.Change(before, after); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		amiss, err := table.Heal(want)
		if err != nil || amiss != tt.amiss {
			t.Errorf("%s: amiss %t, %v, want %t", tt.name, amiss, err, tt.amiss)
		}
		is(t, tt.name, name, want)
	}
}

// TestApply_Many: a transaction may be larger than a socket's buffers are, and a list of elements larger than an attribute.
func TestApply_Many(t *testing.T) {
	ownNamespace(t)
	want := &rules.Table{Sets: []rules.Set{{Name: "pods", Kind: rules.Chains}}}
	a := addr("10.0.0.0")
	for i := range 5000 {
		chain := fmt.Sprintf("chain-%d", i/10)
		if i%10 == 0 {
			want.Chains = append(want.Chains, rules.Chain{Name: chain, Rules: []rules.Rule{{Verdict: rules.Drop}}})
		}
		want.Sets[0].Elements = append(want.Sets[0].Elements, rules.Element{Addr: a, Chain: chain})
		a = a.Next()
	}
	if err := New("", "many").Apply(want); err != nil {
		t.Fatal(err)
	}
	is(t, "many", "many", want)
}

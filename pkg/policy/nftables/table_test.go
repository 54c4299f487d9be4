// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/machinetest"
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
			{Name: "base", Base: true, Rules: []rules.Rule{
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
	got, err := read(name)
	if err != nil {
		t.Fatal(err)
	}
	wanted := &state{chains: map[string][]string{}, sets: map[string]map[element]bool{}}
	if want != nil {
		wanted = after(want)
	}
	if diff := cmp.Diff(wanted, got, cmp.AllowUnexported(state{}, element{})); diff != "" {
		t.Errorf("%s: the kernel has something else (-want +got):\n%s", what, diff)
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
	if b := plan(name, after(want), want, after(want)); len(b.messages) != 0 {
		t.Errorf("%d changes to nothing", len(b.messages))
	}

	want = everything()
	want.Sets[0].Elements = want.Sets[0].Elements[1:]
	want.Sets[9].Elements = []rules.Element{{Addr: addr("10.0.0.1"), Chain: "two"}, {Addr: addr("10.0.0.3"), Chain: "one"}}
	want.Chains[1].Rules = want.Chains[1].Rules[3:]
	want.Chains = append(want.Chains, rules.Chain{Name: "three"})
	apply("changes", table, want)

	want = &rules.Table{Sets: everything().Sets[:1], Chains: []rules.Chain{{Name: "base", Base: true}}}
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
	good := &rules.Table{Chains: []rules.Chain{{Name: "base", Base: true}}}
	if err := table.Apply(good); err != nil {
		t.Fatal(err)
	}
	bad := &rules.Table{Chains: []rules.Chain{{Name: "another"}, {Name: "base", Base: true, Rules: []rules.Rule{{Verdict: rules.Jump, Target: "nowhere"}}}}}
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
	for _, tt := range []struct {
		name   string
		damage func(b *batch)
		amiss  bool
	}{
		{"nothing", func(*batch) {}, false},
		{"others' rules", func(b *batch) { b.table = "others"; b.addTable() }, false},
		{"the table is gone", func(b *batch) { b.deleteTable() }, true},
		{"a chain is empty", func(b *batch) { b.flush("one") }, true},
		{"a rule more", func(b *batch) { b.addRule("one", rules.Rule{Verdict: rules.Accept}) }, true},
		{"a chain more", func(b *batch) { b.addChain(rules.Chain{Name: "theirs"}) }, true},
		{"an element less", func(b *batch) {
			b.deleteElements("addresses-4", []element{{key: string(addr("10.0.0.1").AsSlice())}})
		}, true},
		{"an element more", func(b *batch) {
			b.addElements("addresses-4", []element{{key: string(addr("10.0.0.9").AsSlice())}})
		}, true},
	} {
		b := &batch{table: name}
		tt.damage(b)
		if err := b.commit(); err != nil {
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

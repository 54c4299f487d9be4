// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/iptables/fake"
	"minik8s.io/minik8s/pkg/proxy/model"
	"minik8s.io/minik8s/pkg/proxy/rules"
)

var chains = rules.ChainsOf("c")

// prefix is "MK-<hash>-".
var prefix = strings.TrimSuffix(chains.Canary(), "PROXY-CANARY")

// ruleset has one chain per service, whose only rule carries the given target.
func ruleset(services map[string]string) *rules.Ruleset {
	var names []string
	for n := range services {
		names = append(names, n)
	}
	slices.Sort(names)
	all := rules.Chain{Name: prefix + "SERVICES"}
	nat := rules.Table{Name: "nat", Jumps: []rules.Jump{{Parent: "PREROUTING", Rule: "-j " + prefix + "SERVICES"}}}
	nat.Chains = append(nat.Chains, rules.Chain{Name: chains.Canary()})
	for _, n := range names {
		c := rules.Chain{Name: prefix + "SVC-" + n, Rules: []string{"-j " + services[n]}, Service: n}
		nat.Chains = append(nat.Chains, c)
		all.Rules = append(all.Rules, "-j "+c.Name)
	}
	nat.Chains = append(nat.Chains, all)
	return &rules.Ruleset{Family: model.IPv4, Tables: []rules.Table{nat}}
}

func expand(s string) string { return strings.ReplaceAll(s, "MK-", prefix) }

func TestTable_Apply_OnlyDifferences(t *testing.T) {
	ctx := context.Background()
	kernel := fake.New()
	table := iptables.New(kernel, chains)
	steps := []struct {
		name     string
		services map[string]string
		want     []string
	}{
		{"first", map[string]string{"A": "ACCEPT"}, []string{
			expand("*nat\n:MK-SVC-A - [0:0]\n:MK-PROXY-CANARY - [0:0]\n:MK-SERVICES - [0:0]\n-A MK-SVC-A -j ACCEPT\n-A MK-SERVICES -j MK-SVC-A\nCOMMIT\n"),
			expand("*nat\n-I PREROUTING 1 -j MK-SERVICES\nCOMMIT\n"),
		}},
		{"same", map[string]string{"A": "ACCEPT"}, nil},
		{"endpoints change", map[string]string{"A": "RETURN"}, []string{
			expand("*nat\n:MK-SVC-A - [0:0]\n-A MK-SVC-A -j RETURN\nCOMMIT\n"),
		}},
		{"one comes, one goes", map[string]string{"B": "ACCEPT"}, []string{
			expand("*nat\n:MK-SVC-B - [0:0]\n:MK-SERVICES - [0:0]\n:MK-SVC-A - [0:0]\n-A MK-SVC-B -j ACCEPT\n-A MK-SERVICES -j MK-SVC-B\n-X MK-SVC-A\nCOMMIT\n"),
		}},
	}
	for _, s := range steps {
		if err := table.Apply(ctx, ruleset(s.services)); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if diff := cmp.Diff(s.want, kernel.Restores()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
	}
}

func TestTable_Apply_AfterRestartRemovesLeftovers(t *testing.T) {
	ctx := context.Background()
	kernel := fake.New()
	if err := iptables.New(kernel, chains).Apply(ctx, ruleset(map[string]string{"OLD": "ACCEPT", "A": "RETURN"})); err != nil {
		t.Fatal(err)
	}
	// Another part of the same cluster has a chain too.
	other := prefix + "NETWORK"
	if err := kernel.Restore(ctx, "*nat\n:"+other+" - [0:0]\nCOMMIT\n"); err != nil {
		t.Fatal(err)
	}
	if err := iptables.New(kernel, chains).Apply(ctx, ruleset(map[string]string{"A": "ACCEPT"})); err != nil {
		t.Fatal(err)
	}
	saved, _ := kernel.Save(ctx, "nat")
	if strings.Contains(saved, "SVC-OLD") || !strings.Contains(saved, other) || strings.Count(saved, "-A PREROUTING") != 1 {
		t.Errorf("got:\n%s", saved)
	}
}

func TestTable_Apply_RewritesAfterFailure(t *testing.T) {
	ctx := context.Background()
	kernel := fake.New()
	table := iptables.New(kernel, chains)
	if err := table.Apply(ctx, ruleset(map[string]string{"A": "ACCEPT"})); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("lock held")
	kernel.Fail(broken)
	if err := table.Apply(ctx, ruleset(map[string]string{"A": "RETURN"})); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	kernel.Fail(nil)
	kernel.Restores()
	if err := table.Apply(ctx, ruleset(map[string]string{"A": "RETURN"})); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kernel.Restores(), ""); !strings.Contains(got, "SERVICES - [0:0]") || !strings.Contains(got, "-j RETURN") {
		t.Errorf("not everything was written again:\n%s", got)
	}
}

func TestTable_Apply_Chunks(t *testing.T) {
	ctx := context.Background()
	kernel := fake.New()
	services := map[string]string{}
	for i := range 600 {
		services[fmt.Sprintf("S%d", i)] = "ACCEPT"
	}
	rs := ruleset(services)
	if err := iptables.New(kernel, chains).Apply(ctx, rs); err != nil {
		t.Fatal(err)
	}
	var perText []int
	for _, text := range kernel.Restores() {
		perText = append(perText, strings.Count(text, ":"+prefix+"SVC-"))
	}
	// Missing shared chains, three chunks, the shared chains, the jumps.
	if diff := cmp.Diff([]int{0, 250, 250, 100, 0, 0}, perText); diff != "" {
		t.Errorf("service chains per restore (-want +got):\n%s", diff)
	}
}

func TestTable_Check(t *testing.T) {
	ctx := context.Background()
	rs := ruleset(map[string]string{"A": "ACCEPT"})
	jump := "-j " + prefix + "SERVICES"
	tests := []struct {
		name   string
		harm   string
		intact bool
		want   []string // PREROUTING after Check
	}{
		{name: "untouched", intact: true, want: []string{jump}},
		{name: "Docker got ahead", harm: "-I PREROUTING 1 -m addrtype --dst-type LOCAL -j DOCKER", intact: true,
			want: []string{jump, "-m addrtype --dst-type LOCAL -j DOCKER"}},
		{name: "the pod network got ahead", harm: "-I PREROUTING 1 -j MINIK8S-FWD-ab", intact: true,
			want: []string{jump, "-j MINIK8S-FWD-ab"}},
		{name: "an administrator's rule stays ahead", harm: "-I PREROUTING 1 -s 1.2.3.4/32 -j ACCEPT", intact: true,
			want: []string{"-s 1.2.3.4/32 -j ACCEPT", jump}},
		{name: "another cluster stays ahead", harm: "-I PREROUTING 1 -j MK-OTHER-SERVICES", intact: true,
			want: []string{"-j MK-OTHER-SERVICES", jump}},
		{name: "doubled", harm: "-A PREROUTING " + jump, intact: true, want: []string{jump}},
		{name: "jump removed", harm: "-D PREROUTING " + jump, intact: false, want: []string{jump}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kernel := fake.New()
			if err := kernel.Restore(ctx, "*nat\n:DOCKER - [0:0]\n:MINIK8S-FWD-ab - [0:0]\n:MK-OTHER-SERVICES - [0:0]\nCOMMIT\n"); err != nil {
				t.Fatal(err)
			}
			table := iptables.New(kernel, chains)
			if err := table.Apply(ctx, rs); err != nil {
				t.Fatal(err)
			}
			if tt.harm != "" {
				if err := kernel.Restore(ctx, "*nat\n"+tt.harm+"\nCOMMIT\n"); err != nil {
					t.Fatal(err)
				}
			}
			intact, err := table.Check(ctx, rs)
			if err != nil || intact != tt.intact {
				t.Errorf("intact %v, %v", intact, err)
			}
			listed, _ := kernel.List(ctx, "nat", "PREROUTING")
			var got []string
			for line := range strings.Lines(listed) {
				if rule, ok := strings.CutPrefix(strings.TrimSpace(line), "-A PREROUTING "); ok {
					got = append(got, rule)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("PREROUTING (-want +got):\n%s", diff)
			}
		})
	}
}

// looks counts the looks at the kernel's rules.
type looks struct {
	*fake.Tables
	n int
}

func (l *looks) List(ctx context.Context, table, chain string) (string, error) {
	l.n++
	return l.Tables.List(ctx, table, chain)
}

func TestTable_Check_LooksOnce(t *testing.T) {
	ctx := t.Context()
	kernel := &looks{Tables: fake.New()}
	rs := ruleset(map[string]string{"A": "ACCEPT"})
	table := iptables.New(kernel, chains)
	if err := table.Apply(ctx, rs); err != nil {
		t.Fatal(err)
	}
	check := func(want bool) (n int) {
		t.Helper()
		kernel.n = 0
		if intact, err := table.Check(ctx, rs); err != nil || intact != want {
			t.Errorf("intact: %t, %v, want %t", intact, err, want)
		}
		return kernel.n
	}
	if check(true) == 0 {
		t.Error("nobody has looked at the rules")
	}
	if n := check(true); n != 0 {
		t.Errorf("%d looks at rules that nobody has changed", n)
	}
	if err := kernel.Restore(ctx, "*nat\n-D PREROUTING -j "+prefix+"SERVICES\nCOMMIT\n"); err != nil {
		t.Fatal(err)
	}
	check(false) // and puts it back
	check(true)
}

func TestTable_Purge_LeavesOthers(t *testing.T) {
	ctx := context.Background()
	kernel := fake.New()
	before := "*nat\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n"
	if err := kernel.Restore(ctx, before); err != nil {
		t.Fatal(err)
	}
	want, _ := kernel.Save(ctx, "nat")
	table := iptables.New(kernel, chains)
	if err := table.Apply(ctx, ruleset(map[string]string{"A": "ACCEPT"})); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing
		if err := table.Purge(ctx); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := kernel.Save(ctx, "nat")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

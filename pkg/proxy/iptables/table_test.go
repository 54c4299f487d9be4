// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/iptables/fake"
	"minik8s.io/minik8s/pkg/proxy/iptables/rules"
	"minik8s.io/minik8s/pkg/proxy/model"
)

var config = backend.Config{Cluster: "c", Family: model.IPv4, MasqueradeMark: 1 << 14}

var chains = rules.ChainsOf(config.Cluster)

// prefix is "MK-<hash>-".
var prefix = strings.TrimSuffix(chains.Canary(), "PROXY-CANARY")

// service has one port and so many endpoints.
func service(name string, n, endpoints int) *model.Service {
	p := model.ServicePort{
		Name:      model.PortName{Namespace: "ns", Service: name, Protocol: corev1.ProtocolTCP},
		ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)}), Port: 80,
	}
	for i := range endpoints {
		p.Cluster = append(p.Cluster, model.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(i)}), 8080)})
	}
	p.HasEndpoints = endpoints > 0
	return &model.Service{Name: model.Name{Namespace: "ns", Name: name}, Ports: []model.ServicePort{p}}
}

// changes are Services by name with their numbers of endpoints, -1 for one that is gone.
func changes(services map[string]int) backend.Changes {
	out := backend.Changes{}
	for name, endpoints := range services {
		key := model.Name{Namespace: "ns", Name: name}
		if out[key] = nil; endpoints >= 0 {
			out[key] = service(name, int(name[0]), endpoints)
		}
	}
	return out
}

var hashed = regexp.MustCompile(`(MK-[A-Z0-9]{5}-(?:SVC|SEP)-)[A-Z0-9]{15}`)

// brief is a restore text without hashes and comments.
func brief(text string) string {
	text = strings.ReplaceAll(hashed.ReplaceAllString(text, "$1*"), prefix, "MK-")
	return regexp.MustCompile(`-m comment --comment "[^"]*" `).ReplaceAllString(text, "")
}

func TestTable_Apply_OnlyDifferences(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	table := iptables.New(kernel, config)
	if err := table.Apply(ctx, changes(map[string]int{"A": 1, "B": 0})); err != nil {
		t.Fatal(err)
	}
	kernel.Restores()
	const sep = "-A MK-SEP-* -s 10.244.0.%[1]d/32 -j MK-MARK-MASQ\n-A MK-SEP-* -p tcp -m tcp -j DNAT --to-destination 10.244.0.%[1]d:8080\n"
	steps := []struct {
		name     string
		services map[string]int
		want     []string
	}{
		{"same", map[string]int{"A": 1}, nil},
		{"another endpoint", map[string]int{"A": 2}, []string{
			"*nat\n:MK-SVC-* - [0:0]\n:MK-SEP-* - [0:0]\n-A MK-SVC-* -m statistic --mode random --probability 0.5000000000 -j MK-SEP-*\n" +
				"-A MK-SVC-* -j MK-SEP-*\n" + fmt.Sprintf(sep, 1) + "COMMIT\n",
		}},
		{"first endpoint", map[string]int{"B": 1}, []string{
			"*nat\n:MK-SVC-* - [0:0]\n:MK-SEP-* - [0:0]\n-A MK-SVC-* -j MK-SEP-*\n" + fmt.Sprintf(sep, 0) +
				"-I MK-SERVICES 1 -p tcp -m tcp -d 10.96.0.66/32 --dport 80 -j MK-SVC-*\nCOMMIT\n" +
				"*filter\n-D MK-SERVICES -p tcp -m tcp -d 10.96.0.66/32 --dport 80 -j REJECT\nCOMMIT\n",
		}},
		{"one is gone", map[string]int{"B": -1}, []string{
			"*nat\n:MK-SEP-* - [0:0]\n:MK-SVC-* - [0:0]\n-D MK-SERVICES -p tcp -m tcp -d 10.96.0.66/32 --dport 80 -j MK-SVC-*\n" +
				"-X MK-SEP-*\n-X MK-SVC-*\nCOMMIT\n",
		}},
		{"one that never was", map[string]int{"C": -1}, nil},
	}
	for _, s := range steps {
		if err := table.Apply(ctx, changes(s.services)); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		var got []string
		for _, text := range kernel.Restores() {
			got = append(got, brief(text))
		}
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
		if intact, err := table.Check(ctx); err != nil || !intact {
			t.Errorf("%s: intact: %t, %v", s.name, intact, err)
		}
	}
}

// TestTable_Last: what is told of the last Apply is what is in the kernel, and what was given to it.
func TestTable_Last(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	table := iptables.New(kernel, config)
	inKernel := func(name string) int {
		saved, err := kernel.Save(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(saved, "\n-A "+prefix)
	}
	const all = -1
	for _, s := range []struct {
		name        string
		services    map[string]int
		fail        error
		everything  bool
		nat, filter int // written
	}{
		{"first", map[string]int{"A": 1, "B": 0}, nil, true, all, all},
		{"same", map[string]int{"A": 1}, nil, false, 0, 0},
		{"another endpoint", map[string]int{"A": 2}, nil, false, 4, 0},
		{"no endpoint", map[string]int{"C": 0}, nil, false, 0, 1},
		{"first endpoint", map[string]int{"B": 1}, nil, false, 4, 0},
		{"one is gone", map[string]int{"B": -1}, nil, false, 0, 0},
		{"one that never was", map[string]int{"D": -1}, nil, false, 0, 0},
		{"failure", map[string]int{"A": 1}, errors.New("lock held"), false, 1, 0},
		{"after a failure", nil, nil, true, all, all},
	} {
		kernel.Fail(s.fail)
		if err := table.Apply(ctx, changes(s.services)); !errors.Is(err, s.fail) {
			t.Fatalf("%s: %v", s.name, err)
		}
		got := table.Last()
		want := backend.Sync{Everything: s.everything, Rules: map[string]backend.Rules{
			"nat": {All: inKernel("nat"), Written: s.nat}, "filter": {All: inKernel("filter"), Written: s.filter},
		}}
		for name, r := range want.Rules {
			if s.fail != nil {
				r.All = got.Rules[name].All // they are not there
			}
			if r.Written == all {
				r.Written = r.All
			}
			want.Rules[name] = r
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
	}
}

func TestTable_Apply_AfterRestartRemovesLeftovers(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	if err := iptables.New(kernel, config).Apply(ctx, changes(map[string]int{"OLD": 2, "A": 2})); err != nil {
		t.Fatal(err)
	}
	// Another part of the same cluster has a chain too.
	other := prefix + "NETWORK"
	if err := kernel.Restore(ctx, "*nat\n:"+other+" - [0:0]\nCOMMIT\n"); err != nil {
		t.Fatal(err)
	}
	if err := iptables.New(kernel, config).Apply(ctx, changes(map[string]int{"A": 1})); err != nil {
		t.Fatal(err)
	}
	saved, _ := kernel.Save(ctx, "nat")
	if strings.Count(saved, ":"+prefix+"S") != 3 || !strings.Contains(saved, other) || strings.Count(saved, "-A PREROUTING") != 1 {
		t.Errorf("got:\n%s", saved)
	}
}

func TestTable_Apply_RewritesAfterFailure(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	table := iptables.New(kernel, config)
	if err := table.Apply(ctx, changes(map[string]int{"A": 1, "B": 1})); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("lock held")
	kernel.Fail(broken)
	if err := table.Apply(ctx, changes(map[string]int{"A": 2})); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	kernel.Fail(nil)
	kernel.Restores()
	if err := table.Apply(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kernel.Restores(), ""); !strings.Contains(got, "SERVICES - [0:0]") || strings.Count(got, "-j DNAT") != 3 {
		t.Errorf("not everything was written again:\n%s", got)
	}
}

func TestTable_Apply_Chunks(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	services := backend.Changes{}
	for i := range 600 {
		s := service(fmt.Sprint("S", i), i, 1)
		services[s.Name] = s
	}
	table := iptables.New(kernel, config)
	perText := func(prefixes ...string) (got []int) {
		for _, text := range kernel.Restores() {
			n := 0
			for _, p := range prefixes {
				n += strings.Count(text, p+prefix+"SVC-")
			}
			got = append(got, n)
		}
		return got
	}
	if err := table.Apply(ctx, services); err != nil {
		t.Fatal(err)
	}
	// Missing shared chains, three chunks, the shared chains and the jumps to them.
	if diff := cmp.Diff([]int{0, 250, 250, 100, 0}, perText(":")); diff != "" {
		t.Errorf("service chains per restore (-want +got):\n%s", diff)
	}
	for name := range services {
		services[name] = nil
	}
	if err := table.Apply(ctx, services); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{250, 250, 100}, perText("-X ")); diff != "" {
		t.Errorf("removed chains per restore (-want +got):\n%s", diff)
	}
}

// TestTable_Apply_Overtaken: at a start others insert their jumps, too.
func TestTable_Apply_Overtaken(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	kernel.Meanwhile("*filter\n:MINIK8S-FWD-ab - [0:0]\n-I FORWARD 1 -j MINIK8S-FWD-ab\nCOMMIT\n")
	if err := iptables.New(kernel, config).Apply(ctx, changes(map[string]int{"A": 0})); err != nil {
		t.Fatal(err)
	}
	listed, err := kernel.List("filter", "FORWARD")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(listed), "\n")
	if last := lines[len(lines)-1]; strings.Count(listed, prefix) != 4 || !strings.HasSuffix(last, "-j MINIK8S-FWD-ab") {
		t.Errorf("the pod network accepts what is to be refused:\n%s", listed)
	}
}

func TestTable_Check(t *testing.T) {
	ctx := t.Context()
	jump := `-m comment --comment "kubernetes service portals" -j ` + prefix + "SERVICES"
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
		{name: "a rule of ours removed", harm: "-D " + prefix + "MARK-MASQ -j MARK --or-mark 0x4000", want: []string{jump}},
		{name: "a rule of ours replaced", harm: "-D " + prefix + "MARK-MASQ -j MARK --or-mark 0x4000\n-A " + prefix + "MARK-MASQ -j RETURN", want: []string{jump}},
		{name: "a rule added to ours", harm: "-A " + prefix + "SERVICES -j RETURN", want: []string{jump}},
		{name: "a chain of ours added", harm: ":" + prefix + "SVC-STRAY - [0:0]", want: []string{jump}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kernel := fake.New()
			if err := kernel.Restore(ctx, "*nat\n:DOCKER - [0:0]\n:MINIK8S-FWD-ab - [0:0]\n:MK-OTHER-SERVICES - [0:0]\nCOMMIT\n"); err != nil {
				t.Fatal(err)
			}
			table := iptables.New(kernel, config)
			if err := table.Apply(ctx, changes(map[string]int{"A": 2})); err != nil {
				t.Fatal(err)
			}
			if intact, err := table.Check(ctx); err != nil || !intact {
				t.Fatalf("before: intact %v, %v", intact, err)
			}
			before, _ := kernel.Save(ctx, "nat")
			if tt.harm != "" {
				if err := kernel.Restore(ctx, "*nat\n"+tt.harm+"\nCOMMIT\n"); err != nil {
					t.Fatal(err)
				}
			}
			intact, err := table.Check(ctx)
			if err != nil || intact != tt.intact {
				t.Errorf("intact %v, %v", intact, err)
			}
			if err := table.Apply(ctx, nil); err != nil {
				t.Fatal(err)
			}
			if after, _ := kernel.Save(ctx, "nat"); !intact && after != before {
				t.Errorf("not healed (-before +after):\n%s", cmp.Diff(before, after))
			}
			listed, _ := kernel.List("nat", "PREROUTING")
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

func (l *looks) Save(ctx context.Context, table string) (string, error) {
	l.n++
	return l.Tables.Save(ctx, table)
}

func TestTable_Check_LooksOnce(t *testing.T) {
	ctx := t.Context()
	kernel := &looks{Tables: fake.New()}
	table := iptables.New(kernel, config)
	if err := table.Apply(ctx, changes(map[string]int{"A": 1})); err != nil {
		t.Fatal(err)
	}
	check := func(want bool) (n int) {
		t.Helper()
		kernel.n = 0
		if intact, err := table.Check(ctx); err != nil || intact != want {
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
	if err := kernel.Restore(ctx, "*nat\n-D PREROUTING -m comment --comment \"kubernetes service portals\" -j "+prefix+"SERVICES\nCOMMIT\n"); err != nil {
		t.Fatal(err)
	}
	check(false)
	if err := table.Apply(ctx, nil); err != nil {
		t.Fatal(err)
	}
	check(true)
}

// TestTable_Foreign: where somebody has made rules by another program iptables shows nothing. Then no jump is added that is there, and one
// that is flushed comes back.
func TestTable_Foreign(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	table := iptables.New(kernel, config)
	apply := func(services map[string]int) {
		t.Helper()
		if err := table.Apply(ctx, changes(services)); err != nil {
			t.Fatal(err)
		}
	}
	jumps := func() (n int) {
		for at, parents := range map[string][]string{"nat": {"PREROUTING", "OUTPUT", "POSTROUTING"}, "filter": {"INPUT", "FORWARD", "OUTPUT"}} {
			for _, parent := range parents {
				listed, err := kernel.List(at, parent)
				if err != nil {
					t.Fatal(err)
				}
				n += strings.Count(listed, "-j "+prefix)
			}
		}
		return n
	}
	check := func(want bool) {
		t.Helper()
		if intact, err := table.Check(ctx); err != nil || intact != want {
			t.Errorf("intact: %t, %v, want %t", intact, err, want)
		}
	}
	apply(map[string]int{"A": 1})
	want := jumps()
	kernel.Foreign()
	for n := range 3 { // somebody changes rules again and again
		if err := kernel.Restore(ctx, fmt.Sprintf("*filter\n-A INPUT -s 192.0.2.%d -j DROP\nCOMMIT\n", n)); err != nil {
			t.Fatal(err)
		}
		check(true)
		apply(map[string]int{"A": n + 2})
	}
	table = iptables.New(kernel, config) // another process
	apply(map[string]int{"A": 1})
	check(true)
	if got := jumps(); got != want {
		t.Errorf("%d jumps, want %d", got, want)
	}
	kernel.Flush()
	if intact, _ := table.Check(ctx); intact { // the chains that it would jump to have gone, too
		t.Error("what was flushed is intact")
	}
	apply(nil)
	check(true)
	if got, err := kernel.List("nat", prefix+"SERVICES"); err != nil || jumps() != want || !strings.Contains(got, "-j "+prefix+"SVC-") {
		t.Errorf("after a flush there are %d jumps, and of services %q, %v", jumps(), got, err)
	}
	for range 2 {
		if err := table.Purge(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := jumps(); got != 0 {
		t.Errorf("after a purge there are %d jumps", got)
	}
}

func TestTable_Purge_LeavesOthers(t *testing.T) {
	ctx := t.Context()
	kernel := fake.New()
	before := "*nat\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n"
	if err := kernel.Restore(ctx, before); err != nil {
		t.Fatal(err)
	}
	want, _ := kernel.Save(ctx, "nat")
	table := iptables.New(kernel, config)
	if err := table.Apply(ctx, changes(map[string]int{"A": 1})); err != nil {
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

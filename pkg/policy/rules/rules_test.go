// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/policy/model"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// list is a table as text.
func list(t *Table) []string {
	var out []string
	for _, s := range t.Sets {
		line := "set " + s.Name + ":"
		for _, e := range s.Elements {
			line += " " + e.Addr.String()
			switch s.Kind {
			case Ranges:
				line += "-" + e.Last.String()
			case Endpoints:
				line += fmt.Sprintf(":%d/%s", e.Port, e.Protocol)
			case Chains:
				line += "→" + e.Chain
			}
		}
		out = append(out, line)
	}
	for _, c := range t.Chains {
		line := "chain "
		if c.Hook != None {
			line = "base chain "
		}
		out = append(out, line+c.Name)
		for _, r := range c.Rules {
			out = append(out, "  "+r.String())
		}
	}
	return out
}

func TestBuild(t *testing.T) {
	snap := &model.Snapshot{
		Ingress: model.Side{
			Policies: []model.Policy{
				{Name: "x/deny"},
				{Name: "x/web", Rules: []model.Rule{
					{Groups: []string{"friends"}, Blocks: []model.Range{{First: addrs("192.0.2.0")[0], Last: addrs("192.0.2.9")[0]}},
						Ports: []model.Ports{{Protocol: corev1.ProtocolTCP, First: 80, Last: 81}, {Protocol: corev1.ProtocolUDP, Last: 65535}}},
					{Anyone: true, Named: []string{"web"}},
				}},
			},
			Pods: []model.Pod{
				{Addrs: addrs("10.0.0.1", "fd00::1"), Policies: []string{"x/deny", "x/web"}},
				{Addrs: addrs("10.0.0.2"), Policies: []string{"x/deny"}},
				{Addrs: addrs("10.0.0.3"), Policies: []string{"x/deny"}},
			},
		},
		Egress: model.Side{Policies: []model.Policy{{Name: "x/none", Rules: []model.Rule{{Groups: []string{"nobody"}, AnyPort: true}}}}, Pending: true},
		Groups: map[string][]netip.Addr{"friends": addrs("10.0.1.1", "fd00::5"), "nobody": nil},
		Named:  map[string][]model.Endpoint{"web": {{Addr: addrs("10.0.0.1")[0], Protocol: corev1.ProtocolTCP, Port: 8080}}},
		Local:  addrs("10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"),
	}
	got := list(Build(snap, Config{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, ClusterDNS: addrs("10.96.0.10")}))
	want := strings.Split(`set block-FC-4: 10.0.0.0-10.0.0.255
set local-4: 10.0.0.1 10.0.0.2 10.0.0.3
set group-FRIENDS-4: 10.0.1.1
set block-192-4: 192.0.2.0-192.0.2.9
set group-FRIENDS-6: fd00::5
set port-WEB-4: 10.0.0.1:8080/TCP
set ingress-self-4: 10.0.0.1 10.0.0.2 10.0.0.3
set ingress-pods-4: 10.0.0.1→ingress-pods/BOTH 10.0.0.2→ingress-pods/DENY 10.0.0.3→ingress-pods/DENY
set ingress-self-6: fd00::1
set ingress-pods-6: fd00::1→ingress-pods/BOTH
chain egress/x/none
base chain egress
  ct original ip daddr 10.96.0.10 accept
  ct original ip saddr @block-FC-4 ct original ip saddr != @local-4 drop
chain ingress/x/deny
chain ingress/x/web/0
  ct original protocol tcp ct reply proto-src 80-81 accept
  ct original protocol udp accept
chain ingress/x/web
  ct original ip saddr @group-FRIENDS-4 jump ingress/x/web/0
  ct original ip saddr @block-192-4 jump ingress/x/web/0
  ct original ip6 saddr @group-FRIENDS-6 jump ingress/x/web/0
  ct reply ip saddr . ct original protocol . ct reply proto-src @port-WEB-4 accept
chain ingress-pods/BOTH
  jump ingress/x/deny
  jump ingress/x/web
  drop
chain ingress-pods/DENY
  jump ingress/x/deny
  drop
base chain ingress
  ct original ip saddr . ct reply ip saddr @ingress-self-4 accept
  ct reply ip saddr vmap @ingress-pods-4
  ct state invalid,untracked ip daddr vmap @ingress-pods-4
  ct original ip6 saddr . ct reply ip6 saddr @ingress-self-6 accept
  ct reply ip6 saddr vmap @ingress-pods-6
  ct state invalid,untracked ip6 daddr vmap @ingress-pods-6`, "\n")
	names := strings.NewReplacer("FC", short("10.0.0.0-10.0.0.255 "), "192-4", short("192.0.2.0-192.0.2.9 ")+"-4", "FRIENDS", short("friends"),
		"WEB", short("web"), "BOTH", short("x/deny x/web"), "DENY", short("x/deny"))
	for i := range want {
		want[i] = names.Replace(want[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBuild_Names(t *testing.T) {
	long := strings.Repeat("n", 63) + "/" + strings.Repeat("p", 253)
	for _, d := range []direction{ingress, egress} {
		a, b := policyChain(d, long), policyChain(d, long[:len(long)-1]+"q")
		if len(a)+len("/100") > 255 || a == b {
			t.Errorf("%s and %s", a, b)
		}
	}
	if TableName("a") == TableName("b") {
		t.Error("two clusters have one table")
	}
}

// TestBuild_Tiers: what the Admin tier passes on finds where to go by the pod's address, and the node itself asks no NetworkPolicy.
func TestBuild_Tiers(t *testing.T) {
	rule := func(action model.Action, group string) model.Rule {
		return model.Rule{Action: action, Groups: []string{group}, AnyPort: true}
	}
	snap := &model.Snapshot{
		Egress: model.Side{
			Admin:    []model.Policy{{Name: "_admin/a", Rules: []model.Rule{rule(model.Accept, "A"), rule(model.Pass, "B"), rule(model.Deny, "C")}}},
			Policies: []model.Policy{{Name: "x/none"}},
			Baseline: []model.Policy{{Name: "_baseline/b", Rules: []model.Rule{rule(model.Pass, "A"), rule(model.Deny, "B")}}},
			Pods: []model.Pod{
				{Addrs: addrs("10.0.0.1"), Admin: []string{"_admin/a"}, Policies: []string{"x/none"}},
				{Addrs: addrs("10.0.0.2"), Baseline: []string{"_baseline/b"}},
			},
		},
		Groups: map[string][]netip.Addr{"A": addrs("10.0.1.1"), "B": addrs("10.0.1.2"), "C": addrs("10.0.1.3")},
	}
	names := strings.NewReplacer("group-"+short("A"), "A", "group-"+short("B"), "B", "group-"+short("C"), "C",
		short("_admin/a x/none"), "ONE", short("_baseline/b"), "TWO", short("x/none"), "NP", "/"+short("_admin/a"), "/ADMIN", "/"+short(""), "/NOTHING")
	var got []string
	for _, line := range list(Build(snap, Config{})) {
		got = append(got, names.Replace(line))
	}
	want := strings.Split(`set A-4: 10.0.1.1
set B-4: 10.0.1.2
set C-4: 10.0.1.3
set egress-next-4: 10.0.0.1→egress-next/NP
set egress-self-4: 10.0.0.1 10.0.0.2
set egress-pods-4: 10.0.0.1→egress-pods/ONE 10.0.0.2→egress-pods/TWO
set node-next-4: 10.0.0.1→node-next/NOTHING
set node-self-4: 10.0.0.1 10.0.0.2
set node-pods-4: 10.0.0.1→node-pods/ADMIN 10.0.0.2→node-pods/TWO
chain egress/_admin/a
  ct reply ip saddr @A-4 accept
  ct reply ip saddr @B-4 jump egress-pass
  ct reply ip saddr @C-4 drop
chain egress/x/none
chain egress/_baseline/b
  ct reply ip saddr @A-4 accept
  ct reply ip saddr @B-4 drop
chain egress-next/NP
  jump egress/x/none
  drop
chain egress-pods/ONE
  ct state invalid,untracked drop
  jump egress/_admin/a
  jump egress-next/NP
chain egress-pods/TWO
  ct state invalid,untracked drop
  jump egress/_baseline/b
  accept
chain egress-pass
  ct original ip saddr vmap @egress-next-4
base chain egress
  ct original ip saddr . ct reply ip saddr @egress-self-4 accept
  ct original ip saddr vmap @egress-pods-4
  ct state invalid,untracked ip saddr vmap @egress-pods-4
chain node/_admin/a
  ct reply ip saddr @A-4 accept
  ct reply ip saddr @B-4 jump node-pass
  ct reply ip saddr @C-4 drop
chain node/_baseline/b
  ct reply ip saddr @A-4 accept
  ct reply ip saddr @B-4 drop
chain node-next/NOTHING
  accept
chain node-pods/ADMIN
  ct state invalid,untracked drop
  jump node/_admin/a
  jump node-next/NOTHING
chain node-pods/TWO
  ct state invalid,untracked drop
  jump node/_baseline/b
  accept
chain node-pass
  ct original ip saddr vmap @node-next-4
base chain node
  ct original ip saddr . ct reply ip saddr @node-self-4 accept
  ct original ip saddr vmap @node-pods-4
  ct state invalid,untracked ip saddr vmap @node-pods-4`, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

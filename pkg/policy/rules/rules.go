// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules turns what a node has to enforce into a table of nftables. It is pure data; change it when a packet should
// be judged in another way.
//
// The node routes each packet of its pods, so all of them pass the forward hook; what processes of the node say to its pods,
// and these to the node, does not, and no NetworkPolicy judges it. There are two chains at the hook, and a packet must pass both:
//
//	egress  ─ by the connection's client ─► egress-pods/HASH  ─► egress/NAMESPACE/POLICY … ─► drop
//	ingress ─ by the connection's server ─► ingress-pods/HASH ─► ingress/NAMESPACE/POLICY … ─► drop
//
// A policy's chain accepts what it lets through and returns otherwise; pods that the same policies are about share a chain. Who
// is not isolated is in neither map. An accept ends one of the two chains only, and other tables at the hook, such as
// iptables', are asked all the same: this table can refuse, and nothing else.
//
// ClusterNetworkPolicies have chains of the same kind, which also drop. Those of the Admin tier are asked before NetworkPolicies, those of
// the Baseline tier in their place:
//
//	egress-pods/HASH ─► egress/_admin/POLICY … ─► egress-next/HASH ─► egress/NAMESPACE/POLICY … ─► drop
//	                          │ pass                     ▲       or ─► egress/_baseline/POLICY … ─► accept
//	                          └─► egress-pass ─ by the connection's client
//
// What they say of nodes holds for the pod's own too: a third chain, at the input hook, has the same for egress without NetworkPolicies.
//
// What is judged is the connection, and that with each of its packets, answers too: a policy that is new holds for what
// was established before it, from the instant at which the table is replaced. Addresses and ports are those that conntrack
// keeps of both ends, which rewriting for Services does not hide: the client's before it is masqueraded, the server's after a
// Service has chosen it.
package rules

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/policy/model"
)

// Config is what the rules depend on besides the policies.
type Config struct {
	// PodCIDRs are the ranges of this node's pods.
	PodCIDRs []netip.Prefix
	// ClusterDNS are the addresses of the Service that pods ask for names. It is always allowed: the node itself answers.
	ClusterDNS []netip.Addr
}

// TableName is the name of a cluster's table.
func TableName(cluster string) string { return "minik8s-policy-" + strings.ToLower(hash(cluster, 8)) }

// direction is what differs between ingress and egress.
type direction struct {
	name string
	hook Hook
	// isolated is whose policies are asked, peer the other end; packet is the address of the former in a packet of which
	// the connection is not known.
	isolated, peer, packet Field
}

var (
	ingress = direction{"ingress", Forward, Server, Client, Destination}
	egress  = direction{"egress", Forward, Client, Server, Source}
	// toNode is egress to the pod's own node.
	toNode = direction{"node", Input, Client, Server, Source}
)

// Build renders a snapshot. Equal snapshots give equal tables.
func Build(snap *model.Snapshot, cfg Config) *Table {
	b := &builder{Config: cfg, snap: snap, sets: map[string]bool{}}
	b.side(egress, &snap.Egress)
	b.side(ingress, &snap.Ingress)
	b.side(toNode, withoutPolicies(&snap.Egress))
	return &b.table
}

// withoutPolicies leaves ClusterNetworkPolicies: NetworkPolicies keep no pod from its own node.
func withoutPolicies(s *model.Side) *model.Side {
	out := &model.Side{Admin: s.Admin, Baseline: s.Baseline, ClusterPending: s.ClusterPending}
	for _, p := range s.Pods {
		if p.Policies = nil; len(p.Admin)+len(p.Baseline) > 0 {
			out.Pods = append(out.Pods, p)
		}
	}
	return out
}

type builder struct {
	Config
	snap  *model.Snapshot
	table Table
	sets  map[string]bool // the names of the sets in table
}

// side renders one direction: the chains of policies, those of the pods that they are about, and the map of these.
func (b *builder) side(d direction, s *model.Side) {
	if len(s.Admin)+len(s.Policies)+len(s.Baseline) == 0 {
		return
	}
	for _, p := range s.Admin {
		b.policy(d, p, Rule{Verdict: Jump, Target: d.name + "-pass"})
	}
	for _, p := range slices.Concat(s.Policies, s.Baseline) {
		b.policy(d, p, Rule{Verdict: Accept})
	}
	pods, next, self := b.pods(d, s)
	if passes(s.Admin) {
		pass := Chain{Name: d.name + "-pass"}
		for _, six := range []bool{false, true} {
			if len(next[six]) > 0 {
				pass.Rules = append(pass.Rules, Rule{[]Match{{Field: d.isolated, Six: six}}, Goto, b.set(d.name+"-next", Chains, six, next[six])})
			}
		}
		b.table.Chains = append(b.table.Chains, pass) // each pod that asks one of the policies is in a map
	}
	var rules []Rule
	if d.isolated == Client {
		for _, a := range b.ClusterDNS {
			rules = append(rules, Rule{[]Match{{Field: Asked, Six: a.Is6(), Addr: a}}, Accept, ""})
		}
	}
	for _, six := range []bool{false, true} {
		if len(pods[six]) == 0 {
			continue
		}
		self := b.set(d.name+"-self", Pairs, six, self[six])
		pods := b.set(d.name+"-pods", Chains, six, pods[six])
		rules = append(rules,
			Rule{[]Match{{Field: Self, Six: six, Set: self}}, Accept, ""},
			Rule{[]Match{{Field: d.isolated, Six: six}}, Goto, pods},
			Rule{[]Match{{Field: Untracked}, {Field: d.packet, Six: six}}, Goto, pods})
	}
	if s.Pending || s.ClusterPending {
		rules = append(rules, b.unknown(d)...)
	}
	b.table.Chains = append(b.table.Chains, Chain{Name: d.name, Hook: d.hook, Rules: rules})
}

// passes tells whether a policy has a rule that passes on.
func passes(policies []model.Policy) bool {
	return slices.ContainsFunc(policies, func(p model.Policy) bool {
		return slices.ContainsFunc(p.Rules, func(r model.Rule) bool { return r.Action == model.Pass })
	})
}

// pods makes the chains of pods, and returns what leads from their addresses to these, and to what comes after the Admin tier.
func (b *builder) pods(d direction, s *model.Side) (pods, next, self map[bool][]Element) {
	pods, next, self = map[bool][]Element{}, map[bool][]Element{}, map[bool][]Element{}
	refusing := map[string]bool{}
	for _, p := range slices.Concat(s.Admin, s.Baseline) {
		refusing[p.Name] = slices.ContainsFunc(p.Rules, func(r model.Rule) bool { return r.Action == model.Deny })
	}
	made := map[string]bool{}
	for _, p := range s.Pods {
		after := d.name + "-next/" + short(strings.Join(slices.Concat(p.Policies, p.Baseline), " "))
		chain := Chain{Name: d.name + "-pods/" + short(strings.Join(slices.Concat(p.Admin, p.Policies, p.Baseline), " "))}
		if !made[chain.Name] {
			made[chain.Name] = true
			if slices.ContainsFunc(slices.Concat(p.Admin, p.Baseline), func(name string) bool { return refusing[name] }) {
				chain.Rules = []Rule{{[]Match{{Field: Untracked}}, Drop, ""}} // nobody knows what it is of
			}
			if len(p.Admin) == 0 {
				chain.Rules = append(chain.Rules, afterAdmin(d, p)...)
			} else {
				if !made[after] {
					made[after] = true
					b.table.Chains = append(b.table.Chains, Chain{Name: after, Rules: afterAdmin(d, p)})
				}
				chain.Rules = append(append(chain.Rules, jumps(d, p.Admin)...), Rule{nil, Jump, after})
			}
			b.table.Chains = append(b.table.Chains, chain)
		}
		for _, a := range p.Addrs {
			pods[a.Is6()] = append(pods[a.Is6()], Element{Addr: a, Chain: chain.Name})
			self[a.Is6()] = append(self[a.Is6()], Element{Addr: a})
			if len(p.Admin) > 0 {
				next[a.Is6()] = append(next[a.Is6()], Element{Addr: a, Chain: after})
			}
		}
	}
	return pods, next, self
}

// jumps ask policies one after the other.
func jumps(d direction, policies []string) (out []Rule) {
	for _, p := range policies {
		out = append(out, Rule{nil, Jump, policyChain(d, p)})
	}
	return out
}

// afterAdmin decides what the Admin tier has left open.
func afterAdmin(d direction, p model.Pod) []Rule {
	if len(p.Policies) > 0 {
		return append(jumps(d, p.Policies), Rule{nil, Drop, ""})
	}
	return append(jumps(d, p.Baseline), Rule{nil, Accept, ""})
}

// unknown refuses pods whose address nobody has told yet. One of them is isolated, and must not talk before it is.
func (b *builder) unknown(d direction) []Rule {
	var rules []Rule
	for _, p := range b.PodCIDRs {
		six := p.Addr().Is6()
		r := model.RangeOf(p)
		rule := Rule{[]Match{{Field: d.isolated, Six: six, Set: b.blocks([]model.Range{r}, six)}}, Drop, ""}
		if known := b.addresses("local", six, b.snap.Local); known != "" {
			rule.Matches = append(rule.Matches, Match{Field: d.isolated, Six: six, Set: known, Not: true})
		}
		rules = append(rules, rule)
	}
	return rules
}

// policyChain names the chain of a policy. The kernel takes 255 characters, and a policy alone may have more.
func policyChain(d direction, policy string) string {
	const most = 200
	if name := d.name + "/" + policy; len(name) <= most {
		return name
	}
	return d.name + "/" + policy[:most] + "/" + strings.ToLower(hash(policy, 16))
}

// policy makes the chain of a policy. What it passes on is done by pass.
func (b *builder) policy(d direction, p model.Policy, pass Rule) {
	chain := Chain{Name: policyChain(d, p.Name)}
	for i, r := range p.Rules {
		peers, ports, then := b.peers(d, r), b.ports(r), pass
		switch r.Action {
		case model.Accept:
			then = Rule{Verdict: Accept}
		case model.Deny:
			then = Rule{Verdict: Drop}
		}
		if len(peers) > 1 && len(ports) > 1 {
			// As many rules as there are peers and ports together, not their product.
			sub := Chain{Name: chain.Name + "/" + strconv.Itoa(i)}
			for _, port := range ports {
				sub.Rules = append(sub.Rules, Rule{port, then.Verdict, then.Target})
			}
			b.table.Chains = append(b.table.Chains, sub)
			ports, then = [][]Match{nil}, Rule{Verdict: Jump, Target: sub.Name}
		}
		for _, peer := range peers {
			for _, port := range ports {
				chain.Rules = append(chain.Rules, Rule{append(slices.Clip(peer), port...), then.Verdict, then.Target})
			}
		}
	}
	b.table.Chains = append(b.table.Chains, chain)
}

// peers returns what to match, of which any will do. There is none if no such peer exists.
func (b *builder) peers(d direction, a model.Rule) [][]Match {
	if a.Anyone {
		return [][]Match{nil}
	}
	var out [][]Match
	for _, six := range []bool{false, true} {
		for _, g := range a.Groups {
			if name := b.addresses("group-"+short(g), six, b.snap.Groups[g]); name != "" {
				out = append(out, []Match{{Field: d.peer, Six: six, Set: name}})
			}
		}
		if name := b.blocks(a.Blocks, six); name != "" {
			out = append(out, []Match{{Field: d.peer, Six: six, Set: name}})
		}
	}
	return out
}

func (b *builder) ports(a model.Rule) [][]Match {
	if a.AnyPort {
		return [][]Match{nil}
	}
	var out [][]Match
	for _, p := range a.Ports {
		m := []Match{{Field: Protocol, Is: p.Protocol}}
		if p.First != 0 || p.Last != 1<<16-1 {
			m = append(m, Match{Field: Port, First: p.First, Last: p.Last})
		}
		out = append(out, m)
	}
	for _, key := range a.Named {
		for _, six := range []bool{false, true} {
			var list []Element
			for _, e := range b.snap.Named[key] {
				if e.Addr.Is6() == six {
					list = append(list, Element{Addr: e.Addr, Protocol: e.Protocol, Port: e.Port})
				}
			}
			if len(list) > 0 {
				out = append(out, []Match{{Field: Called, Six: six, Set: b.set("port-"+short(key), Endpoints, six, list)}})
			}
		}
	}
	return out
}

// set returns the name of a set, and adds it if it is not there yet. Its elements change, its name says what they are.
func (b *builder) set(name string, kind Kind, six bool, list []Element) string {
	name = ofFamily(name, six)
	if !b.sets[name] {
		b.sets[name] = true
		b.table.Sets = append(b.table.Sets, Set{name, kind, six, list})
	}
	return name
}

func ofFamily(name string, six bool) string {
	if six {
		return name + "-6"
	}
	return name + "-4"
}

// addresses is set for those of the addresses that are of the family, "" if there are none. Many rules may ask for the same.
func (b *builder) addresses(name string, six bool, addrs []netip.Addr) string {
	if known := ofFamily(name, six); b.sets[known] {
		return known
	}
	var list []Element
	for _, a := range addrs {
		if a.Is6() == six {
			list = append(list, Element{Addr: a})
		}
	}
	if len(list) == 0 {
		return ""
	}
	return b.set(name, Addresses, six, list)
}

// blocks returns the name of a set with those of the ranges that are of the family, "" if there are none. The name is made of
// the ranges, for they never change within a set.
func (b *builder) blocks(ranges []model.Range, six bool) string {
	var list []Element
	var text strings.Builder
	for _, r := range ranges {
		if r.First.Is6() == six {
			list = append(list, Element{Addr: r.First, Last: r.Last})
			text.WriteString(r.First.String() + "-" + r.Last.String() + " ")
		}
	}
	if len(list) == 0 {
		return ""
	}
	return b.set("block-"+short(text.String()), Ranges, six, list)
}

func short(s string) string { return strings.ToLower(hash(s, 16)) }

func hash(s string, digits int) string {
	sum := sha256.Sum256([]byte(s))
	return base32.StdEncoding.EncodeToString(sum[:])[:digits]
}

// Number is the protocol's in IP packets.
func Number(p corev1.Protocol) byte {
	switch p {
	case corev1.ProtocolUDP:
		return 17
	case corev1.ProtocolSCTP:
		return 132
	default:
		return 6
	}
}

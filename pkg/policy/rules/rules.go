// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules turns what a node has to enforce into a table of nftables. It is pure data; change it when a packet should
// be judged in another way.
//
// The node routes each packet of its pods, so all of them pass the forward hook; what processes of the node say to its pods,
// and these to the node, does not, and is not judged. There are two chains at the hook, and a packet must pass both:
//
//	egress  ─ by the connection's client ─► egress-pods/HASH  ─► egress/NAMESPACE/POLICY … ─► drop
//	ingress ─ by the connection's server ─► ingress-pods/HASH ─► ingress/NAMESPACE/POLICY … ─► drop
//
// A policy's chain accepts what it lets through and returns otherwise; pods that the same policies isolate share a chain. Who
// is not isolated is in neither map. An accept ends one of the two chains only, and other tables at the hook, such as
// iptables', are asked all the same: this table can refuse, and nothing else.
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
	// isolated is whose policies are asked, peer the other end; packet is the address of the former in a packet of which
	// the connection is not known.
	isolated, peer, packet Field
}

var (
	ingress = direction{"ingress", Server, Client, Destination}
	egress  = direction{"egress", Client, Server, Source}
)

// Build renders a snapshot. Equal snapshots give equal tables.
func Build(snap *model.Snapshot, cfg Config) *Table {
	b := &builder{Config: cfg, snap: snap, sets: map[string]bool{}}
	b.side(egress, &snap.Egress)
	b.side(ingress, &snap.Ingress)
	return &b.table
}

type builder struct {
	Config
	snap  *model.Snapshot
	table Table
	sets  map[string]bool // the names of the sets in table
}

// side renders one direction: the map of pods, their chains, and those of the policies.
func (b *builder) side(d direction, s *model.Side) {
	if len(s.Policies) == 0 {
		return
	}
	for _, p := range s.Policies {
		b.policy(d, p)
	}
	pods := map[bool][]Element{}
	self := map[bool][]Element{}
	made := map[string]bool{}
	for _, p := range s.Pods {
		chain := d.name + "-pods/" + strings.ToLower(hash(strings.Join(p.Policies, " "), 16))
		if !made[chain] {
			made[chain] = true
			b.podChain(d, chain, p.Policies)
		}
		for _, a := range p.Addrs {
			pods[a.Is6()] = append(pods[a.Is6()], Element{Addr: a, Chain: chain})
			self[a.Is6()] = append(self[a.Is6()], Element{Addr: a})
		}
	}
	var rules []Rule
	if d == egress {
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
	if s.Pending {
		rules = append(rules, b.unknown(d)...)
	}
	b.table.Chains = append(b.table.Chains, Chain{Name: d.name, Base: true, Rules: rules})
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

// podChain asks policies one after the other.
func (b *builder) podChain(d direction, chain string, policies []string) {
	c := Chain{Name: chain}
	for _, p := range policies {
		c.Rules = append(c.Rules, Rule{nil, Jump, policyChain(d, p)})
	}
	c.Rules = append(c.Rules, Rule{nil, Drop, ""})
	b.table.Chains = append(b.table.Chains, c)
}

// policyChain names the chain of a policy. The kernel takes 255 characters, and a policy alone may have more.
func policyChain(d direction, policy string) string {
	const most = 200
	if name := d.name + "/" + policy; len(name) <= most {
		return name
	}
	return d.name + "/" + policy[:most] + "/" + strings.ToLower(hash(policy, 16))
}

func (b *builder) policy(d direction, p model.Policy) {
	chain := Chain{Name: policyChain(d, p.Name)}
	for i, a := range p.Allows {
		peers, ports := b.peers(d, a), b.ports(a)
		verdict, target := Accept, ""
		if len(peers) > 1 && len(ports) > 1 {
			// As many rules as there are peers and ports together, not their product.
			verdict, target = Jump, chain.Name+"/"+strconv.Itoa(i)
			sub := Chain{Name: target}
			for _, port := range ports {
				sub.Rules = append(sub.Rules, Rule{port, Accept, ""})
			}
			b.table.Chains = append(b.table.Chains, sub)
			ports = [][]Match{nil}
		}
		for _, peer := range peers {
			for _, port := range ports {
				chain.Rules = append(chain.Rules, Rule{append(slices.Clip(peer), port...), verdict, target})
			}
		}
	}
	b.table.Chains = append(b.table.Chains, chain)
}

// peers returns what to match, of which any will do. There is none if no such peer exists.
func (b *builder) peers(d direction, a model.Allow) [][]Match {
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

func (b *builder) ports(a model.Allow) [][]Match {
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

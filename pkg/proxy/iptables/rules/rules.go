// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules turns Services into iptables chains. It is pure text; change it when a packet
// should take another way.
//
// A packet to a service passes, in the nat table:
//
//	PREROUTING, OUTPUT → SERVICES ─ cluster IP ──────────────► SVC or SVL → SEP → DNAT
//	                              ├ external IP, LB address ─► [FW] → EXT → SVC or SVL
//	                              └ any local address ───────► NODEPORTS → EXT (loopback: see package loopback)
//	POSTROUTING → POSTROUTING (masquerades what MARK-MASQ has marked)
//
// and what no endpoint can take is rejected or dropped in the filter table. The chains have the shape of
// those of upstream's proxy, so that guides to the one help with the other.
package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Config is what the rules depend on besides the services.
type Config struct {
	backend.Config
	Chains Chains
}

// Chain is one chain and its whole content.
type Chain struct {
	Name string
	// Rules are in iptables syntax without "-A name".
	Rules []string
}

// Line is a rule in a chain that the Services share. Such lines are ahead of the chain's own rules; among them the order does not
// matter.
type Line struct {
	Table, Chain, Rule string
}

// Fragment is what one Service has in the tables.
type Fragment struct {
	// Chains are chains of the nat table that belong to the Service. Only its own chains and Lines refer to them.
	Chains []Chain
	Lines  []Line
}

// Jump is a rule in a built-in chain that leads into ours.
type Jump struct {
	Parent string
	Rule   string
}

// Table is what the proxy has in one iptables table, whatever Services there are. Jumps of one parent are in the order of evaluation.
type Table struct {
	Name   string
	Chains []Chain
	Jumps  []Jump
}

// Base renders what does not depend on Services.
func Base(cfg Config) []Table {
	b := &builder{Config: cfg}
	return []Table{b.filter(), b.nat()}
}

// Render renders a Service. Equal Services give equal fragments, byte for byte.
func Render(s *model.Service, cfg Config) *Fragment {
	b := &builder{Config: cfg}
	for i := range s.Ports {
		b.port(&s.Ports[i])
	}
	if hc := s.HealthCheck; hc != nil {
		b.line("filter", nodePorts, comment(s.Name.String()+" health check node port")+
			"-p tcp -m tcp --dport "+strconv.Itoa(int(hc.Port))+" -j ACCEPT")
	}
	return &b.out
}

// builder collects a fragment.
type builder struct {
	Config
	out Fragment
}

func (b *builder) line(table, chain, rule string) {
	b.out.Lines = append(b.out.Lines, Line{table, b.Chains.fixed(chain), rule})
}

func (b *builder) service(rule string)  { b.line("nat", services, rule) }
func (b *builder) nodePort(rule string) { b.line("nat", nodePorts, rule) }
func (b *builder) reject(rule string)   { b.line("filter", services, rule) }

// rejectExternal is for packets that come in by other addresses than the cluster IP.
func (b *builder) rejectExternal(rule string) { b.line("filter", externalServices, rule) }

func (b *builder) nat() Table {
	c := b.Chains
	mark := fmt.Sprintf("%#x", b.MasqueradeMark)
	chains := []Chain{
		{Name: c.fixed(canary)},
		{Name: c.fixed(markMasq), Rules: []string{"-j MARK --or-mark " + mark}},
		{Name: c.fixed(postrouting), Rules: []string{
			"-m mark ! --mark " + mark + "/" + mark + " -j RETURN",
			// The mark is cleared so that a packet which is encapsulated and sent again is not
			// masqueraded twice.
			"-j MARK --xor-mark " + mark,
			comment("kubernetes service traffic requiring SNAT") + "-j MASQUERADE --random-fully",
		}},
	}
	chains = append(chains, Chain{Name: c.fixed(nodePorts)}, Chain{Name: c.fixed(services), Rules: b.toNodePorts()})
	return Table{Name: "nat", Chains: chains, Jumps: []Jump{
		{"PREROUTING", comment("kubernetes service portals") + "-j " + c.fixed(services)},
		{"OUTPUT", comment("kubernetes service portals") + "-j " + c.fixed(services)},
		{"POSTROUTING", comment("kubernetes postrouting rules") + "-j " + c.fixed(postrouting)},
	}}
}

func (b *builder) filter() Table {
	c := b.Chains
	mark := fmt.Sprintf("%#x", b.MasqueradeMark)
	var martian []string
	if b.Family == model.IPv4 {
		// Host ports set route_localnet on the links of their pods, and others may set it for all links: then
		// neighbours would reach what listens on the loopback address only.
		martian = []string{comment("block incoming localnet connections") +
			"-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"}
	}
	isNew := func(text, chain string) string {
		return "-m conntrack --ctstate NEW " + comment(text) + "-j " + c.fixed(chain)
	}
	const (
		lb     = "kubernetes load balancer firewall"
		portal = "kubernetes service portals"
		ext    = "kubernetes externally-visible service portals"
	)
	return Table{
		Name: "filter",
		Chains: []Chain{
			{Name: c.fixed(canary)},
			{Name: c.fixed(firewall), Rules: martian},
			{Name: c.fixed(forward), Rules: []string{
				// A packet that conntrack cannot place would leave without its NAT undone.
				"-m conntrack --ctstate INVALID -j DROP",
				comment("kubernetes forwarding rules") + "-m mark --mark " + mark + "/" + mark + " -j ACCEPT",
				comment("kubernetes forwarding conntrack rule") + "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
			}},
			{Name: c.fixed(nodePorts)},
			{Name: c.fixed(services), Rules: b.unclaimed()},
			{Name: c.fixed(externalServices)},
			{Name: c.fixed(proxyFirewall)},
		},
		Jumps: []Jump{
			{"INPUT", "-j " + c.fixed(firewall)},
			{"INPUT", isNew(lb, proxyFirewall)},
			{"INPUT", comment("kubernetes health check service ports") + "-j " + c.fixed(nodePorts)},
			{"INPUT", isNew(ext, externalServices)},
			{"FORWARD", isNew(lb, proxyFirewall)},
			{"FORWARD", comment("kubernetes forwarding rules") + "-j " + c.fixed(forward)},
			{"FORWARD", isNew(portal, services)},
			{"FORWARD", isNew(ext, externalServices)},
			{"OUTPUT", "-j " + c.fixed(firewall)},
			{"OUTPUT", isNew(lb, proxyFirewall)},
			{"OUTPUT", isNew(portal, services)},
		},
	}
}

// notLoopback leaves out the loopback addresses, whose node ports this process answers itself: the kernel routes nothing from
// there to pods unless it is told to (route_localnet, and for IPv6 never).
func (b *builder) notLoopback() string {
	if b.Family == model.IPv6 {
		return "! -d ::1/128 "
	}
	return "! -d 127.0.0.0/8 "
}

// toNodePorts are the last rules of the services' chain: whatever goes to an address of the node and to no Service by its address.
func (b *builder) toNodePorts() []string {
	rule := func(match string) string {
		return comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain") +
			match + "-m addrtype --dst-type LOCAL -j " + b.Chains.fixed(nodePorts)
	}
	if len(b.NodePortCIDRs) == 0 {
		return []string{rule(b.notLoopback())}
	}
	var out []string
	for _, p := range b.NodePortCIDRs {
		out = append(out, rule("-d "+p.String()+" "))
	}
	return out
}

// unclaimed refuses what is still on its way to a cluster IP after the nat table, if it is from a pod or from the node itself: what
// others send through the node to such an address may be meant for another network that has it.
func (b *builder) unclaimed() []string {
	if !b.ServiceCIDR.IsValid() {
		return nil
	}
	to := "-d " + b.ServiceCIDR.String() + " "
	reject := func(from string) string { return comment("no such service port") + to + from + "-j REJECT" }
	var out []string
	if b.ClusterCIDR.IsValid() {
		out = append(out, reject("-s "+b.ClusterCIDR.String()+" "))
	}
	return append(out, reject("-m addrtype --src-type LOCAL "))
}

// port renders one service port. The branches are flat on purpose: which address leads to which
// chain, and which packets are refused, has to be seen together.
func (b *builder) port(s *model.ServicePort) {
	name := s.Name.String()
	proto := strings.ToLower(string(s.Name.Protocol))
	match := "-p " + proto + " -m " + proto + " "
	dport := " --dport " + strconv.Itoa(int(s.Port)) + " "
	nodeDport := "--dport " + strconv.Itoa(int(s.NodePort)) + " "

	svc := b.Chains.port(clusterPolicy, s.Name)
	svl := b.Chains.port(localPolicy, s.Name)
	ext := b.Chains.port(external, s.Name)
	fw := b.Chains.port(sourceFilter, s.Name)

	internalChain, externalChain := svc, svc
	if s.InternalLocal {
		internalChain = svl
	}
	if s.ExternalLocal {
		externalChain = svl
	}

	if len(s.InternalEndpoints()) > 0 {
		b.service(comment(name+" cluster IP") + match + "-d " + host(s.ClusterIP) + dport + "-j " + internalChain)
	} else {
		b.reject(refusal(s, name, match+"-d "+host(s.ClusterIP)+dport))
	}

	lbChain := ext
	if s.Restricted {
		lbChain = fw
	}
	// Under the external policy "Local" a port without an endpoint here still serves the node and its
	// pods, who may use any endpoint; only the others' packets fall through to the refusal.
	reachable := len(s.Cluster) > 0
	refused := len(s.ExternalEndpoints()) == 0
	for _, ip := range s.ExternalIPs {
		if reachable {
			b.service(comment(name+" external IP") + match + "-d " + host(ip) + dport + "-j " + ext)
		}
		if refused {
			b.rejectExternal(refusal(s, name, match+"-d "+host(ip)+dport))
		}
	}
	for _, ip := range s.LoadBalancerIPs {
		if reachable {
			b.service(comment(name+" loadbalancer IP") + match + "-d " + host(ip) + dport + "-j " + lbChain)
			if s.Restricted {
				b.line("filter", proxyFirewall, comment(name+" traffic not accepted by "+fw)+match+"-d "+host(ip)+dport+"-j DROP")
			}
		}
		if refused {
			b.rejectExternal(refusal(s, name, match+"-d "+host(ip)+dport))
		}
	}
	if s.NodePort != 0 {
		if reachable {
			b.nodePort(comment(name) + match + nodeDport + "-j " + ext)
		}
		if refused {
			b.rejectExternal(refusal(s, name, b.notLoopback()+match+"-m addrtype --dst-type LOCAL "+nodeDport))
		}
	}

	if reachable && s.External() {
		b.externalChain(s, name, ext, svc, externalChain, refused)
		if s.Restricted && len(s.LoadBalancerIPs) > 0 {
			b.sourceFilter(s, name, fw, ext)
		}
	}
	if len(s.Cluster) > 0 {
		b.balance(s, name, match+"-d "+host(s.ClusterIP)+dport, svc, s.Cluster, !s.InternalLocal)
	}
	if len(s.Local) > 0 {
		b.balance(s, name, match+"-d "+host(s.ClusterIP)+dport, svl, s.Local, s.InternalLocal)
	}
	b.endpoints(s, name, match)
}

// refusal rejects if nobody can answer, and drops if only other nodes can: under the policy "Local" a
// client shall try elsewhere instead of taking the refusal for an answer.
func refusal(s *model.ServicePort, name, match string) string {
	if s.HasEndpoints {
		return comment(name+" has no local endpoints") + match + "-j DROP"
	}
	return comment(name+" has no endpoints") + match + "-j REJECT"
}

func (b *builder) externalChain(s *model.ServicePort, name, ext, svc, policy string, refused bool) {
	mark := "-j " + b.Chains.fixed(markMasq)
	var out []string
	if !s.ExternalLocal {
		// The reply has to come back through this node, where the NAT is undone.
		out = append(out, comment("masquerade traffic for "+name+" external destinations")+mark)
	} else {
		if b.ClusterCIDR.IsValid() {
			out = append(out, comment("pod traffic for "+name+" external destinations")+"-s "+b.ClusterCIDR.String()+" -j "+svc)
		}
		local := "-m addrtype --src-type LOCAL "
		out = append(out,
			comment("masquerade LOCAL traffic for "+name+" external destinations")+local+mark,
			comment("route LOCAL traffic for "+name+" external destinations")+local+"-j "+svc)
	}
	if !refused {
		out = append(out, "-j "+policy)
	}
	b.add(ext, out)
}

func (b *builder) sourceFilter(s *model.ServicePort, name, fw, ext string) {
	var out []string
	for _, r := range s.SourceRanges {
		out = append(out, comment(name+" loadbalancer IP")+"-s "+r.String()+" -j "+ext)
	}
	if b.NodeAdmitted(s.SourceRanges) {
		for _, ip := range s.LoadBalancerIPs {
			out = append(out, comment(name+" loadbalancer IP")+"-s "+host(ip)+" -j "+ext)
		}
	}
	out = append(out, comment("other traffic to "+name+" will be dropped by "+b.Chains.fixed(proxyFirewall))+"-j RETURN")
	b.add(fw, out)
}

// balance renders a chain that takes one of the endpoints, equally often each. internal tells that the
// chain also takes the cluster IP's packets, of which those from outside the pods are masqueraded.
func (b *builder) balance(s *model.ServicePort, name, clusterIP, chain string, eps []model.Endpoint, internal bool) {
	out := make([]string, 0, 2*len(eps)+1)
	if internal && b.ClusterCIDR.IsValid() {
		out = append(out, comment(name+" cluster IP")+clusterIP+"! -s "+b.ClusterCIDR.String()+" -j "+b.Chains.fixed(markMasq))
	}
	if s.AffinitySeconds > 0 {
		for _, ep := range eps {
			sep := b.Chains.sep(s.Name, ep)
			out = append(out, comment(name+" -> "+ep.Addr.String())+"-m recent --name "+sep+
				" --rcheck --seconds "+strconv.Itoa(int(s.AffinitySeconds))+" --reap -j "+sep)
		}
	}
	for i, ep := range eps {
		out = append(out, comment(name+" -> "+ep.Addr.String())+b.share(len(eps)-i)+"-j "+b.Chains.sep(s.Name, ep))
	}
	b.add(chain, out)
}

// share matches one of so many packets: those that have come so far are for as many endpoints.
func (b *builder) share(of int) string {
	switch {
	case of == 1:
		return ""
	case b.Scheduler == backend.RoundRobin:
		return "-m statistic --mode nth --every " + strconv.Itoa(of) + " --packet 0 "
	}
	return "-m statistic --mode random --probability " + strconv.FormatFloat(1/float64(of), 'f', 10, 64) + " "
}

func (b *builder) endpoints(s *model.ServicePort, name, match string) {
	seen := make(map[netip.AddrPort]bool, len(s.Cluster)+len(s.Local))
	for _, list := range [][]model.Endpoint{s.Cluster, s.Local} {
		for _, ep := range list {
			if seen[ep.Addr] {
				continue
			}
			seen[ep.Addr] = true
			sep := b.Chains.sep(s.Name, ep)
			remember := ""
			if s.AffinitySeconds > 0 {
				remember = "-m recent --name " + sep + " --set "
			}
			out := make([]string, 0, 2)
			if !ep.Elsewhere {
				// An endpoint that reaches itself through the service would answer itself directly. It does so on its own node only.
				out = append(out, comment(name)+"-s "+host(ep.Addr.Addr())+" -j "+b.Chains.fixed(markMasq))
			}
			b.add(sep, append(out, comment(name)+remember+match+"-j DNAT --to-destination "+ep.Addr.String()))
		}
	}
}

func (b *builder) add(chain string, out []string) {
	b.out.Chains = append(b.out.Chains, Chain{Name: chain, Rules: out})
}

func comment(text string) string { return `-m comment --comment "` + text + `" ` }

func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

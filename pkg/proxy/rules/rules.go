// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules turns a snapshot of services into iptables chains. It is pure text; change it when a packet
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

	"minik8s.io/minik8s/pkg/proxy/model"
)

// Config is what the rules depend on besides the services.
type Config struct {
	Chains Chains
	// MasqueradeMark is the single packet mark bit that asks for source NAT.
	MasqueradeMark uint32
	// ClusterCIDR holds the pods' addresses of the family; traffic to cluster IPs from elsewhere is
	// masqueraded. The zero value turns this off.
	ClusterCIDR netip.Prefix
	// ServiceCIDR is where cluster IPs come from. What goes there and belongs to no service port is refused: it would
	// leave the machine by the default route, and whoever answers there would be taken for the service, for as long as
	// the connection is kept. The zero value turns this off.
	ServiceCIDR netip.Prefix
	// NodeIPs are this node's addresses: a load balancer that admits the node admits its own address
	// too, because the node uses that as source when it calls the load balancer.
	NodeIPs []netip.Addr
}

// Chain is one chain and its whole content.
type Chain struct {
	Name string
	// Rules are in iptables syntax without "-A name".
	Rules []string
	// Service groups the chains that must change together; empty for the chains of the cluster.
	Service string
}

// Jump is a rule in a built-in chain that leads into ours.
type Jump struct {
	Parent string
	Rule   string
}

// Table is what the proxy has in one iptables table. Jumps of one parent are in the order of evaluation.
type Table struct {
	Name   string
	Chains []Chain
	Jumps  []Jump
}

// Ruleset is the whole desired state of one family.
type Ruleset struct {
	Family model.Family
	Tables []Table
}

// Build renders a snapshot. Equal snapshots give equal rule sets, byte for byte.
func Build(snap *model.Snapshot, cfg Config) *Ruleset {
	b := &builder{Config: cfg, family: snap.Family}
	for i := range snap.Ports {
		b.port(&snap.Ports[i])
	}
	for _, hc := range snap.HealthChecks {
		b.healthPorts = append(b.healthPorts, comment(hc.Namespace+"/"+hc.Service+" health check node port")+
			"-p tcp -m tcp --dport "+strconv.Itoa(int(hc.Port))+" -j ACCEPT")
	}
	return &Ruleset{Family: snap.Family, Tables: []Table{b.filter(), b.nat()}}
}

// builder collects rules per chain; the fields below the configuration are the shared chains.
type builder struct {
	Config
	family model.Family

	services, nodePorts        []string // nat
	perService                 []Chain  // nat
	rejected, rejectedExternal []string // filter
	restricted, healthPorts    []string // filter
}

func (b *builder) nat() Table {
	c := b.Chains
	last := comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain") +
		b.notLoopback() + "-m addrtype --dst-type LOCAL -j " + c.fixed(nodePorts)
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
	chains = append(chains, b.perService...)
	chains = append(chains,
		Chain{Name: c.fixed(nodePorts), Rules: b.nodePorts},
		Chain{Name: c.fixed(services), Rules: append(b.services, last)},
	)
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
	if b.family == model.IPv4 {
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
			{Name: c.fixed(nodePorts), Rules: b.healthPorts},
			{Name: c.fixed(services), Rules: append(b.rejected, b.unclaimed()...)},
			{Name: c.fixed(externalServices), Rules: b.rejectedExternal},
			{Name: c.fixed(proxyFirewall), Rules: b.restricted},
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
	if b.family == model.IPv6 {
		return "! -d ::1/128 "
	}
	return "! -d 127.0.0.0/8 "
}

// unclaimed refuses what is still on its way to a cluster IP after the nat table.
func (b *builder) unclaimed() []string {
	if !b.ServiceCIDR.IsValid() {
		return nil
	}
	return []string{comment("no such service port") + "-d " + b.ServiceCIDR.String() + " -j REJECT"}
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
		b.services = append(b.services, comment(name+" cluster IP")+match+"-d "+host(s.ClusterIP)+dport+"-j "+internalChain)
	} else {
		b.rejected = append(b.rejected, refusal(s, name, match+"-d "+host(s.ClusterIP)+dport))
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
			b.services = append(b.services, comment(name+" external IP")+match+"-d "+host(ip)+dport+"-j "+ext)
		}
		if refused {
			b.rejectedExternal = append(b.rejectedExternal, refusal(s, name, match+"-d "+host(ip)+dport))
		}
	}
	for _, ip := range s.LoadBalancerIPs {
		if reachable {
			b.services = append(b.services, comment(name+" loadbalancer IP")+match+"-d "+host(ip)+dport+"-j "+lbChain)
			if s.Restricted {
				b.restricted = append(b.restricted, comment(name+" traffic not accepted by "+fw)+match+"-d "+host(ip)+dport+"-j DROP")
			}
		}
		if refused {
			b.rejectedExternal = append(b.rejectedExternal, refusal(s, name, match+"-d "+host(ip)+dport))
		}
	}
	if s.NodePort != 0 {
		if reachable {
			b.nodePorts = append(b.nodePorts, comment(name)+match+nodeDport+"-j "+ext)
		}
		if refused {
			b.rejectedExternal = append(b.rejectedExternal, refusal(s, name, b.notLoopback()+match+"-m addrtype --dst-type LOCAL "+nodeDport))
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
	b.add(ext, s, out)
}

func (b *builder) sourceFilter(s *model.ServicePort, name, fw, ext string) {
	var out []string
	nodeAdmitted := false
	for _, r := range s.SourceRanges {
		out = append(out, comment(name+" loadbalancer IP")+"-s "+r.String()+" -j "+ext)
		for _, ip := range b.NodeIPs {
			nodeAdmitted = nodeAdmitted || r.Contains(ip)
		}
	}
	if nodeAdmitted {
		for _, ip := range s.LoadBalancerIPs {
			out = append(out, comment(name+" loadbalancer IP")+"-s "+host(ip)+" -j "+ext)
		}
	}
	out = append(out, comment("other traffic to "+name+" will be dropped by "+b.Chains.fixed(proxyFirewall))+"-j RETURN")
	b.add(fw, s, out)
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
		probability := ""
		if left := len(eps) - i; left > 1 {
			probability = "-m statistic --mode random --probability " + strconv.FormatFloat(1/float64(left), 'f', 10, 64) + " "
		}
		out = append(out, comment(name+" -> "+ep.Addr.String())+probability+"-j "+b.Chains.sep(s.Name, ep))
	}
	b.add(chain, s, out)
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
			b.add(sep, s, []string{
				// An endpoint that reaches itself through the service would answer itself directly.
				comment(name) + "-s " + host(ep.Addr.Addr()) + " -j " + b.Chains.fixed(markMasq),
				comment(name) + remember + match + "-j DNAT --to-destination " + ep.Addr.String(),
			})
		}
	}
}

func (b *builder) add(chain string, s *model.ServicePort, out []string) {
	b.perService = append(b.perService, Chain{Name: chain, Rules: out, Service: s.Name.Namespace + "/" + s.Name.Service})
}

func comment(text string) string { return `-m comment --comment "` + text + `" ` }

func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	nft "minik8s.io/minik8s/pkg/network/nftables"
	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// The chains and maps that all Services share.
const (
	services        = "services"
	markMasquerade  = "mark-for-masquerade"
	masquerading    = "masquerading"
	firewallCheck   = "firewall-check"
	endpointsCheck  = "service-endpoints-check"
	nodePortsCheck  = "nodeport-endpoints-check"
	clusterIPsCheck = "cluster-ips-check"
	rejectChain     = "reject-chain"
	dropChain       = "drop-chain"

	serviceIPs          = "service-ips"
	serviceNodePorts    = "service-nodeports"
	noEndpointServices  = "no-endpoint-services"
	noEndpointNodePorts = "no-endpoint-nodeports"
	firewallIPs         = "firewall-ips"
	hairpin             = "hairpin-connections"
	plainEndpoints      = "plain-endpoints"
)

// maxPlain is how many endpoints a Service may have that has nothing of its own but elements of maps.
const maxPlain = 32

// plainChain takes one of n endpoints of the address, protocol and port that a packet goes to.
func plainChain(n int) string { return "plain-" + strconv.Itoa(n) }

// Priorities of hooks. Ahead of what happens to addresses, which the kernel does at -100 in nat chains; ours come before those of
// iptables, so that a node port is a node port whoever else publishes it.
const (
	beforeNAT   = -110
	destination = -101
	source      = 99
	filtering   = -10
)

// translator makes rules.
type translator struct {
	language
	backend.Config
	out *nft.State
}

func (t *translator) element(set, key string, d nft.Data) {
	t.out.AddElement(set, nft.Key{Bytes: key}, d)
}

// baseOf is what does not depend on Services.
func baseOf(c backend.Config) *nft.State {
	t := &translator{languageOf(c.Family), c, nft.NewState()}
	s, mask := t.out, c.MasqueradeMark
	s.AddChain("nat-prerouting", &nft.Hook{Kind: "nat", Number: unix.NF_INET_PRE_ROUTING, Priority: destination}, all(nft.Jump(services)))
	s.AddChain("nat-output", &nft.Hook{Kind: "nat", Number: unix.NF_INET_LOCAL_OUT, Priority: destination}, all(nft.Jump(services)))
	s.AddChain("nat-postrouting", &nft.Hook{Kind: "nat", Number: unix.NF_INET_POST_ROUTING, Priority: source}, all(nft.Jump(masquerading)))
	isNew := ctState(stateNew)
	for name, number := range map[string]uint32{"filter-prerouting-pre-dnat": unix.NF_INET_PRE_ROUTING, "filter-output-pre-dnat": unix.NF_INET_LOCAL_OUT} {
		s.AddChain(name, &nft.Hook{Kind: "filter", Number: number, Priority: beforeNAT}, all(isNew, nft.Jump(firewallCheck)))
	}
	martian := t.martian()
	s.AddChain("filter-input", &nft.Hook{Kind: "filter", Number: unix.NF_INET_LOCAL_IN, Priority: filtering},
		append(martian, all(isNew, nft.Jump(endpointsCheck)), all(isNew, nft.Jump(nodePortsCheck)))...)
	// A packet that conntrack cannot place would leave without its NAT undone.
	s.AddChain("filter-forward", &nft.Hook{Kind: "filter", Number: unix.NF_INET_FORWARD, Priority: filtering},
		all(ctState(stateInvalid), nft.Drop()), all(isNew, nft.Jump(endpointsCheck)), all(isNew, nft.Jump(clusterIPsCheck)))
	s.AddChain("filter-output", &nft.Hook{Kind: "filter", Number: unix.NF_INET_LOCAL_OUT, Priority: filtering},
		append(martian, all(isNew, nft.Jump(endpointsCheck)), all(isNew, nft.Jump(clusterIPsCheck)))...)

	s.AddChain(services, nil, append([]nft.Rule{all(t.place(), nft.Lead(serviceIPs))}, t.nodePorts(serviceNodePorts)...)...)
	s.AddChain(nodePortsCheck, nil, t.nodePorts(noEndpointNodePorts)...)
	s.AddChain(endpointsCheck, nil, all(t.place(), nft.Lead(noEndpointServices)))
	s.AddChain(firewallCheck, nil, all(t.place(), nft.Lead(firewallIPs)))
	s.AddChain(clusterIPsCheck, nil, t.unclaimed()...)
	s.AddChain(rejectChain, nil, all(t.reject()))
	s.AddChain(dropChain, nil, all(nft.Drop()))
	s.AddChain(markMasquerade, nil, all(mark(), nft.Bits(nft.Native(^mask), nft.Native(mask)), setMark()))
	// The mark is cleared so that a packet which is encapsulated and sent again is not masqueraded twice.
	s.AddChain(masquerading, nil, all(mark(), nft.AnyBit(mask), mark(), nft.Bits(nft.Native(^uint32(0)), nft.Native(mask)), setMark(), masquerade()),
		all(ctStatus(statusDestinationNAT), t.saddr(), t.daddr(t.words), nft.Lookup(hairpin), masquerade()))

	for n := 1; n <= maxPlain; n++ {
		s.AddChain(plainChain(n), nil, t.plain(n)...)
	}

	length := uint32(t.length)
	s.AddSet(nft.Set{Name: plainEndpoints, KeyType: t.kind<<18 | nft.TypeProto<<12 | nft.TypePort<<6 | nft.TypeMark, KeyLength: length + 12,
		DataType: t.kind<<6 | nft.TypePort, DataLength: length + 4})
	for _, name := range []string{serviceIPs, noEndpointServices, firewallIPs} {
		s.AddSet(nft.Set{Name: name, KeyType: t.kind<<12 | nft.TypeProto<<6 | nft.TypePort, KeyLength: length + 8, DataType: nft.TypeVerdict})
	}
	for _, name := range []string{serviceNodePorts, noEndpointNodePorts} {
		s.AddSet(nft.Set{Name: name, KeyType: nft.TypeProto<<6 | nft.TypePort, KeyLength: 8, DataType: nft.TypeVerdict})
	}
	s.AddSet(nft.Set{Name: hairpin, KeyType: t.kind<<6 | t.kind, KeyLength: 2 * length})
	return s
}

// plain takes one of n endpoints from the map of all. Packets come here by cluster IPs; those from outside the pods are masqueraded.
func (t *translator) plain(n int) []nft.Rule {
	var out []nft.Rule
	if t.ClusterCIDR.IsValid() {
		out = append(out, all(t.notFrom(t.ClusterCIDR), nft.Jump(markMasquerade)))
	}
	number := t.words + 2
	return append(out, all(t.place(), pick(number, n, backend.Random), load(plainEndpoints, number+1), t.dnat(number+1)))
}

// place loads address, protocol and port to which the packet goes.
func (t *translator) place() []byte { return append(t.daddr(0), service(t.words)...) }

// nodePorts looks protocol and port up in a map if the packet goes to an address that answers node ports.
func (t *translator) nodePorts(in string) []nft.Rule {
	look := append(service(0), nft.Lead(in)...)
	local := addressOfNode(unix.NFTA_FIB_F_DADDR)
	if len(t.NodePortCIDRs) == 0 {
		// Those of the loopback addresses this process answers itself.
		return []nft.Rule{all(t.notTo(t.loopback()), local, look)}
	}
	var out []nft.Rule
	for _, p := range t.NodePortCIDRs {
		out = append(out, all(t.to(p), local, look))
	}
	return out
}

func (t *translator) loopback() netip.Prefix {
	if t.Family == model.IPv6 {
		return netip.MustParsePrefix("::1/128")
	}
	return netip.MustParsePrefix("127.0.0.0/8")
}

// martian drops what comes to a loopback address from outside: host ports set route_localnet on the links of their pods.
func (t *translator) martian() []nft.Rule {
	if t.Family == model.IPv6 {
		return nil
	}
	known := append(ct(unix.NFT_CT_STATE), append(nft.Bits(nft.Native(stateEstablished|stateRelated), make([]byte, 4)), nft.Compare(unix.NFT_CMP_EQ, make([]byte, 4))...)...)
	direct := append(ct(unix.NFT_CT_STATUS), append(nft.Bits(nft.Native(statusDestinationNAT), make([]byte, 4)), nft.Compare(unix.NFT_CMP_EQ, make([]byte, 4))...)...)
	return []nft.Rule{all(t.to(t.loopback()), t.notFrom(t.loopback()), known, direct, nft.Drop())}
}

// unclaimed refuses what pods and the node itself send to a cluster IP that no Service has.
func (t *translator) unclaimed() []nft.Rule {
	if !t.ServiceCIDR.IsValid() {
		return nil
	}
	var out []nft.Rule
	if t.ClusterCIDR.IsValid() {
		out = append(out, all(t.to(t.ServiceCIDR), t.from(t.ClusterCIDR), t.reject()))
	}
	return append(out, all(t.to(t.ServiceCIDR), addressOfNode(unix.NFTA_FIB_F_SADDR), t.reject()))
}

// render returns what a Service has in the table: chains and sets of its own, and elements of shared ones.
func render(s *model.Service, c backend.Config) *nft.State {
	t := &translator{languageOf(c.Family), c, nft.NewState()}
	for i := range s.Ports {
		t.port(&s.Ports[i])
	}
	return t.out
}

func protocolNumber(p corev1.Protocol) byte {
	switch p {
	case corev1.ProtocolUDP:
		return unix.IPPROTO_UDP
	case corev1.ProtocolSCTP:
		return unix.IPPROTO_SCTP
	default:
		return unix.IPPROTO_TCP
	}
}

// port renders one port. Which address leads to which chain, and which packets are refused, has to be seen together.
func (t *translator) port(s *model.ServicePort) {
	t.hairpins(s)
	if isPlain(s, t.Scheduler) {
		t.plainPort(s)
		return
	}
	name := strings.Join([]string{s.Name.Namespace, s.Name.Service, strings.ToLower(string(s.Name.Protocol)), s.Name.Port}, "/")
	cluster, local, external, firewall := "service-"+name, "local-"+name, "external-"+name, "firewall-"+name
	nodePort := string(append([]byte{protocolNumber(s.Name.Protocol), 0, 0, 0}, portKey(s.NodePort)...))
	at := func(ip netip.Addr) string { return placeKey(s, ip) }
	// A client shall try elsewhere if only other nodes can answer, instead of taking the refusal for an answer.
	refusal := nft.Data{Chain: rejectChain}
	if s.HasEndpoints {
		refusal.Chain = dropChain
	}
	internalChain, externalChain := cluster, cluster
	if s.InternalLocal {
		internalChain = local
	}
	if s.ExternalLocal {
		externalChain = local
	}

	if len(s.InternalEndpoints()) > 0 {
		t.element(serviceIPs, at(s.ClusterIP), nft.Data{Chain: internalChain})
	} else {
		t.element(noEndpointServices, at(s.ClusterIP), refusal)
	}
	// Under the external policy "Local" a port without an endpoint here still serves the node and its
	// pods, who may use any endpoint; only the others' packets fall through to the refusal.
	reachable, refused := len(s.Cluster) > 0, len(s.ExternalEndpoints()) == 0
	for _, ips := range [][]netip.Addr{s.ExternalIPs, s.LoadBalancerIPs} {
		for _, ip := range ips {
			if reachable {
				t.element(serviceIPs, at(ip), nft.Data{Chain: external})
			}
			if refused {
				t.element(noEndpointServices, at(ip), refusal)
			}
		}
	}
	if s.Restricted && len(s.LoadBalancerIPs) > 0 {
		for _, ip := range s.LoadBalancerIPs {
			t.element(firewallIPs, at(ip), nft.Data{Chain: firewall})
		}
		t.firewall(s, firewall)
	}
	if s.NodePort != 0 {
		if reachable {
			t.element(serviceNodePorts, nodePort, nft.Data{Chain: external})
		}
		if refused {
			t.element(noEndpointNodePorts, nodePort, refusal)
		}
	}
	if reachable && s.External() {
		t.external(s, external, cluster, externalChain, refused)
	}
	if len(s.Cluster) > 0 {
		t.balance(s, cluster, name, s.Cluster, !s.InternalLocal)
	}
	if len(s.Local) > 0 {
		t.balance(s, local, name, s.Local, s.InternalLocal)
	}
}

// hairpins notes that an endpoint which reaches itself through the service would answer itself directly. It does so on its own node only.
func (t *translator) hairpins(s *model.ServicePort) {
	for _, list := range [][]model.Endpoint{s.Cluster, s.Local} {
		for _, ep := range list {
			if ep.Elsewhere {
				continue
			}
			ip := string(ep.Addr.Addr().AsSlice())
			t.element(hairpin, ip+ip, nft.Data{})
		}
	}
}

// placeKey is what maps have of an address and the port of a Service.
func placeKey(s *model.ServicePort, ip netip.Addr) string {
	return string(ip.AsSlice()) + string(append([]byte{protocolNumber(s.Name.Protocol), 0, 0, 0}, portKey(s.Port)...))
}

// isPlain tells whether a port is reached by its cluster IP alone, and any of its endpoints will do at any time. Most are, and need no
// chain and no set of their own: the kernel goes through all sets of a table to find one, and through all elements of a map for each
// rule that is new, so that a table of n Services that have them takes n² steps to make.
func isPlain(s *model.ServicePort, scheduler backend.Scheduler) bool {
	return !s.External() && !s.InternalLocal && s.AffinitySeconds == 0 && scheduler != backend.RoundRobin && len(s.Cluster) > 0 && len(s.Cluster) <= maxPlain
}

func (t *translator) plainPort(s *model.ServicePort) {
	key := placeKey(s, s.ClusterIP)
	t.element(serviceIPs, key, nft.Data{Chain: plainChain(len(s.Cluster))})
	for i, ep := range s.Cluster {
		t.element(plainEndpoints, key+string(nft.Native(uint32(i))), nft.Data{Value: string(ep.Addr.Addr().AsSlice()) + string(portKey(ep.Addr.Port()))})
	}
}

func (t *translator) external(s *model.ServicePort, chain, cluster, policy string, refused bool) {
	var out []nft.Rule
	if !s.ExternalLocal {
		// The reply has to come back through this node, where the NAT is undone.
		out = append(out, all(nft.Jump(markMasquerade)))
	} else {
		if t.ClusterCIDR.IsValid() {
			out = append(out, all(t.from(t.ClusterCIDR), nft.Goto(cluster)))
		}
		here := addressOfNode(unix.NFTA_FIB_F_SADDR)
		out = append(out, all(here, nft.Jump(markMasquerade)), all(here, nft.Goto(cluster)))
	}
	if !refused {
		out = append(out, all(nft.Goto(policy)))
	}
	t.out.AddChain(chain, nil, out...)
}

// firewall admits the source ranges to a load balancer's addresses.
func (t *translator) firewall(s *model.ServicePort, chain string) {
	var out []nft.Rule
	for _, r := range s.SourceRanges {
		out = append(out, all(t.from(r), back()))
	}
	if t.NodeAdmitted(s.SourceRanges) {
		for _, ip := range s.LoadBalancerIPs {
			out = append(out, all(t.from(netip.PrefixFrom(ip, ip.BitLen())), back()))
		}
	}
	t.out.AddChain(chain, nil, append(out, all(nft.Drop()))...)
}

// balance renders a chain that takes one of the endpoints, equally often each. internal tells that the
// chain also takes the cluster IP's packets, of which those from outside the pods are masqueraded.
//
// A number that is chosen leads by a map to an address. With session affinity it leads to a chain for the endpoint, which remembers the
// client.
func (t *translator) balance(s *model.ServicePort, chain, name string, eps []model.Endpoint, internal bool) {
	var out []nft.Rule
	if internal && t.ClusterCIDR.IsValid() {
		out = append(out, all(t.to(netip.PrefixFrom(s.ClusterIP, s.ClusterIP.BitLen())), t.notFrom(t.ClusterCIDR), nft.Jump(markMasquerade)))
	}
	length := uint32(t.length)
	choice := nft.Set{Name: "endpoints-" + chain, KeyType: nft.TypeMark, KeyLength: 4, DataType: t.kind<<6 | nft.TypePort, DataLength: length + 4}
	if s.AffinitySeconds > 0 {
		choice = nft.Set{Name: "choice-" + chain, KeyType: nft.TypeMark, KeyLength: 4, DataType: nft.TypeVerdict}
	}
	t.out.AddSet(choice)
	for i, ep := range eps {
		addr, port := ep.Addr.Addr().AsSlice(), portKey(ep.Addr.Port())
		if s.AffinitySeconds == 0 {
			t.element(choice.Name, string(nft.Native(uint32(i))), nft.Data{Value: string(addr) + string(port)})
			continue
		}
		to := name + "/" + ep.Addr.Addr().String() + "/" + strconv.Itoa(int(ep.Addr.Port()))
		// The time is in the name, because the kernel changes it of no set.
		known := nft.Set{Name: "affinity-" + strconv.Itoa(int(s.AffinitySeconds)) + "-" + to, KeyType: t.kind, KeyLength: length, Seconds: uint32(s.AffinitySeconds)}
		t.out.AddSet(known)
		t.out.AddChain("endpoint-"+to, nil, all(t.saddr(), remember(known.Name), immediate(0, addr), immediate(t.words, port[:2]), t.dnat(0)))
		t.element(choice.Name, string(nft.Native(uint32(i))), nft.Data{Chain: "endpoint-" + to})
		out = append(out, all(t.saddr(), nft.Lookup(known.Name), nft.Goto("endpoint-"+to)))
	}
	if s.AffinitySeconds > 0 {
		out = append(out, all(pick(0, len(eps), t.Scheduler), nft.Lead(choice.Name)))
	} else {
		out = append(out, all(pick(0, len(eps), t.Scheduler), load(choice.Name, 1), t.dnat(1)))
	}
	t.out.AddChain(chain, nil, out...)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package answer computes DNS answers from the index, after the specification "Kubernetes DNS-Based Service Discovery"
// 1.1.0. It is pure; touch it when a name should resolve to something else.
package answer

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/index"
	"minik8s.io/minik8s/pkg/dns/internal/message"
)

// SchemaVersion is what dns-version.<zone> says.
const SchemaVersion = "1.1.0"

// schemaTTL is the lifetime, in seconds, that the specification's example gives to the schema version.
const schemaTTL = 28800

// Zone is what answers depend on besides the index.
type Zone struct {
	// Domain is the cluster domain, fully qualified and in lower case.
	Domain string
	// Reverse are zones of addresses, of which cluster IPs and endpoints have names.
	Reverse []string
	// TTL in seconds of all cluster records.
	TTL uint32
	// NameServers are the addresses at which clients reach this server.
	NameServers []netip.Addr
	// Pods is how names of pods are answered; "" is as corefile.PodsDisabled.
	Pods corefile.Pods
	// Namespaces, unless empty, are the only ones whose names are told.
	Namespaces []string
	// NoEndpoints leaves headless services and endpoints out, IgnoreEmpty services without ready endpoints.
	NoEndpoints, IgnoreEmpty bool
}

// Result is an answer before it becomes a message.
type Result struct {
	message.Reply
	// Handled is false if the name is none of the zone's.
	Handled bool
	// Target is set if the answer is an alias to a name that is none of the zone's; its records are still to
	// be appended.
	Target string
}

// Plugin is the name under which answers are counted.
const Plugin = "kubernetes"

// maxAliases bounds a chain of ExternalName services that point at one another. CoreDNS follows as many.
const maxAliases = 11

// maxDenial bounds, in seconds, for how long clients believe that there is nothing, however long records live: CoreDNS's.
const maxDenial = 300

// Match is the longest of the zone's names that a lower-case name is in, "" if there is none.
func (z *Zone) Match(name string) string {
	longest := ""
	if dns.IsSubDomain(z.Domain, name) {
		longest = z.Domain
	}
	for _, reverse := range z.Reverse {
		if len(reverse) > len(longest) && dns.IsSubDomain(reverse, name) {
			longest = reverse
		}
	}
	return longest
}

// For answers one question.
func (z *Zone) For(x *index.Index, q message.Question) Result {
	switch zone := z.Match(q.Name); zone {
	case "":
		return Result{}
	case z.Domain:
	default:
		return z.pointer(x, q, zone)
	}
	var aliases []dns.RR
	owner := q.Name
	for range maxAliases + 1 {
		r := z.lookup(x, owner, q.Type)
		res := z.render(x, r, owner, q.Type)
		res.Answer = append(aliases, res.Answer...)
		if r.alias == "" || q.Type == dns.TypeCNAME || !isAddress(q.Type) {
			return res
		}
		aliases = res.Answer
		owner = strings.ToLower(dns.Fqdn(r.alias))
		if !dns.IsSubDomain(z.Domain, owner) {
			res.Target = owner
			return res
		}
	}
	// Nothing is at the end of a circle. A failure would have clients ask again and again.
	return Result{Handled: true, Reply: message.Reply{Authoritative: true, Plugin: Plugin, Authority: z.soa(x, z.Domain)}}
}

// records is what exists at a name. A name that exists without records of the asked type is not an error.
type records struct {
	exists bool
	apex   bool
	text   string
	alias  string
	addrs  []netip.Addr
	srv    []target // only if they are asked for
}

type target struct {
	host string // fully qualified
	port uint16
	addr []netip.Addr
}

// lookup finds what exists at a lower-case name in the zone. It is one flat list of the shapes a name can have.
func (z *Zone) lookup(x *index.Index, name string, qtype uint16) records {
	rest := strings.TrimSuffix(strings.TrimSuffix(name, z.Domain), ".")
	if rest == "" {
		return records{exists: true, apex: true}
	}
	var labels [6]string
	l := split(rest, labels[:0])
	n := len(l)
	srv := qtype == dns.TypeSRV
	switch {
	case rest == "dns-version":
		return records{exists: true, text: SchemaVersion}
	case rest == "ns.dns":
		return records{exists: true, addrs: z.NameServers}
	case rest == "dns", rest == "svc", rest == "pod" && z.pods():
		return records{exists: true}
	case n == 2 && (l[1] == "svc" || l[1] == "pod" && z.pods()):
		return records{exists: z.shows(l[0]) && x.HasNamespace(l[0])}
	case n == 3 && l[2] == "pod":
		return z.pod(x, l[0], l[1])
	case n == 3 && l[2] == "svc":
		return z.service(z.find(x, l[1], l[0]), "", "", srv)
	case n == 4 && l[3] == "svc":
		return z.endpoint(z.find(x, l[2], l[1]), l[0], srv)
	case n == 5 && l[4] == "svc" && len(l[0]) > 1 && l[0][0] == '_' && len(l[1]) > 1 && l[1][0] == '_':
		return z.service(z.find(x, l[3], l[2]), l[0][1:], l[1][1:], srv)
	}
	return records{}
}

// split appends the labels of a name to a list, but no more than it has room for and one.
func split(name string, to []string) []string {
	for len(to) < cap(to) {
		label, rest, more := strings.Cut(name, ".")
		to = append(to, label)
		if !more {
			return to
		}
		name = rest
	}
	return to
}

func (z *Zone) pods() bool { return z.Pods != "" && z.Pods != corefile.PodsDisabled }

func (z *Zone) shows(namespace string) bool {
	return len(z.Namespaces) == 0 || slices.Contains(z.Namespaces, namespace)
}

// find returns a service that has a name, nil if there is none.
func (z *Zone) find(x *index.Index, namespace, name string) *index.Service {
	s := x.Service(namespace, name)
	switch {
	case s == nil, !z.shows(namespace), z.NoEndpoints && s.Headless():
		return nil
	case z.IgnoreEmpty && s.ExternalName == "" && len(s.Endpoints) == 0:
		return nil
	}
	return s
}

// service returns the records of a service, or of one of its named ports.
func (z *Zone) service(s *index.Service, port, proto string, srv bool) records {
	if s == nil {
		return records{}
	}
	wanted := func(p index.Port) bool { return proto == "" || p.Name == port && p.Protocol == proto }
	switch {
	case s.ExternalName != "":
		if _, err := netip.ParseAddr(s.ExternalName); err == nil || proto != "" {
			return records{} // an address is no name that an alias could point to
		}
		return records{exists: true, alias: s.ExternalName}
	case s.Headless():
		// Without a ready endpoint the name does not exist (section 2.4.1).
		var r records
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if proto != "" && !slices.ContainsFunc(e.Ports, wanted) {
				continue
			}
			r.exists = true
			r.addrs = append(r.addrs, e.Addr)
			if srv {
				r.srv = z.targets(r.srv, s, e, wanted)
			}
		}
		return r
	}
	r := records{exists: proto == "" || slices.ContainsFunc(s.Ports, wanted), addrs: s.ClusterIPs}
	for _, p := range s.Ports {
		if srv && wanted(p) {
			r.srv = append(r.srv, target{z.domain(s), p.Port, s.ClusterIPs})
		}
	}
	return r
}

// targets appends where the wanted ports of an endpoint are.
func (z *Zone) targets(list []target, s *index.Service, e *index.Endpoint, wanted func(index.Port) bool) []target {
	for _, p := range e.Ports {
		if wanted(p) {
			list = append(list, target{e.Host + "." + z.domain(s), p.Port, []netip.Addr{e.Addr}})
		}
	}
	return list
}

func (z *Zone) domain(s *index.Service) string { return s.Domain() + ".svc." + z.Domain }

// endpoint returns the records of one endpoint's hostname.
func (z *Zone) endpoint(s *index.Service, host string, srv bool) records {
	if s == nil || z.NoEndpoints {
		return records{}
	}
	if proto, ok := strings.CutPrefix(host, "_"); ok {
		// Below it there are names of ports, so it exists: resolvers may not ask below a name that does not (RFC 8020).
		of := func(p index.Port) bool { return p.Protocol == proto && p.Name != "" }
		headless := func(e index.Endpoint) bool { return slices.ContainsFunc(e.Ports, of) }
		return records{exists: s.Headless() && slices.ContainsFunc(s.Endpoints, headless) || !s.Headless() && slices.ContainsFunc(s.Ports, of)}
	}
	var r records
	for _, e := range s.Host(host) {
		r.exists = true
		r.addrs = append(r.addrs, e.Addr)
		if srv {
			r.srv = z.targets(r.srv, s, &e, func(index.Port) bool { return true })
		}
	}
	return r
}

// pod answers the deprecated records of section 2.6. Without verification any address of an existing namespace is echoed,
// which is what clusters have by default.
func (z *Zone) pod(x *index.Index, label, namespace string) records {
	if !z.pods() || !z.shows(namespace) || !x.HasNamespace(namespace) {
		return records{}
	}
	text := strings.ReplaceAll(label, "-", ":")
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		text = strings.ReplaceAll(label, "-", ".")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || z.Pods == corefile.PodsVerified && !x.HasPod(index.PodKey{Namespace: namespace, Addr: addr.Unmap()}) {
		return records{}
	}
	return records{exists: true, addrs: []netip.Addr{addr.Unmap()}}
}

func (z *Zone) render(x *index.Index, r records, owner string, qtype uint16) Result {
	res := Result{Handled: true, Reply: message.Reply{Authoritative: true, Plugin: Plugin}}
	if !r.exists {
		res.Rcode = dns.RcodeNameError
		res.Authority = z.soa(x, z.Domain)
		return res
	}
	switch {
	case r.alias != "" && (qtype == dns.TypeCNAME || isAddress(qtype)):
		res.Answer = []dns.RR{&dns.CNAME{Hdr: z.header(owner, dns.TypeCNAME), Target: dns.Fqdn(r.alias)}}
	case isAddress(qtype):
		res.Answer = z.addresses(owner, r.addrs, qtype)
	case qtype == dns.TypeSRV:
		res.Answer, res.Extra = z.srv(owner, r.srv)
	case qtype == dns.TypeTXT && r.text != "":
		h := z.header(owner, dns.TypeTXT)
		h.Ttl = schemaTTL
		res.Answer = []dns.RR{&dns.TXT{Hdr: h, Txt: []string{r.text}}}
	case qtype == dns.TypeSOA && r.apex:
		res.Answer = z.soa(x, z.Domain)
	case qtype == dns.TypeNS && r.apex:
		res.Answer, res.Extra = z.nameServer(x, owner)
	}
	if len(res.Answer) == 0 {
		res.Authority = z.soa(x, z.Domain)
	}
	return res
}

// nameServer returns the record of who answers for a zone, and its addresses. Its name is that of the Service at the address, as in CoreDNS.
func (z *Zone) nameServer(x *index.Index, zone string) (answer, extra []dns.RR) {
	name := "ns.dns." + z.Domain
	for _, a := range z.NameServers {
		if at := slices.IndexFunc(x.Names(a), func(p index.Pointer) bool { return !p.Endpoint }); at >= 0 {
			name = x.Names(a)[at].Name + ".svc." + z.Domain
			break
		}
	}
	answer = []dns.RR{&dns.NS{Hdr: z.header(zone, dns.TypeNS), Ns: name}}
	return answer, append(z.addresses(name, z.NameServers, dns.TypeA), z.addresses(name, z.NameServers, dns.TypeAAAA)...)
}

func (z *Zone) addresses(owner string, addrs []netip.Addr, qtype uint16) []dns.RR {
	if len(addrs) == 0 {
		return nil
	}
	out := make([]dns.RR, 0, len(addrs))
	var seen map[netip.Addr]bool // an endpoint may be in two slices for a while
	if len(addrs) > 1 {
		seen = make(map[netip.Addr]bool, len(addrs))
	}
	for _, a := range addrs {
		if seen[a] || a.Is4() != (qtype == dns.TypeA) {
			continue
		}
		if seen != nil {
			seen[a] = true
		}
		if a.Is4() {
			out = append(out, &dns.A{Hdr: z.header(owner, dns.TypeA), A: a.AsSlice()})
		} else {
			out = append(out, &dns.AAAA{Hdr: z.header(owner, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return out
}

// srv shares the weight of 100 evenly, and adds each target's addresses.
func (z *Zone) srv(owner string, targets []target) (answer, extra []dns.RR) {
	type place struct {
		host string
		port uint16
	}
	seen := map[place]bool{}
	hosts := map[string]bool{}
	var distinct []target
	addrs := map[string][]netip.Addr{}
	for _, t := range targets {
		addrs[t.host] = append(addrs[t.host], t.addr...)
		if p := (place{t.host, t.port}); !seen[p] {
			seen[p] = true
			distinct = append(distinct, t)
		}
	}
	for _, t := range distinct {
		answer = append(answer, &dns.SRV{
			Hdr: z.header(owner, dns.TypeSRV), Weight: uint16(max(1, 100/len(distinct))), Port: t.port, Target: t.host,
		})
		if !hosts[t.host] {
			hosts[t.host] = true
			extra = append(extra, z.addresses(t.host, addrs[t.host], dns.TypeA)...)
			extra = append(extra, z.addresses(t.host, addrs[t.host], dns.TypeAAAA)...)
		}
	}
	return answer, extra
}

// pointer answers reverse lookups.
func (z *Zone) pointer(x *index.Index, q message.Question, reverse string) Result {
	res := Result{Handled: true, Reply: message.Reply{Authoritative: true, Plugin: Plugin}}
	switch {
	case q.Name == reverse && q.Type == dns.TypeSOA:
		res.Answer = z.soa(x, reverse)
		return res
	case q.Name == reverse && q.Type == dns.TypeNS:
		res.Answer, res.Extra = z.nameServer(x, reverse)
		return res
	}
	addr, full := ReverseAddr(q.Name)
	for _, n := range x.Names(addr) {
		if !full || !z.shows(n.Namespace) || z.NoEndpoints && n.Endpoint {
			continue
		}
		res.Answer = append(res.Answer, &dns.PTR{Hdr: z.header(q.Name, dns.TypePTR), Ptr: n.Name + ".svc." + z.Domain})
	}
	switch {
	case len(res.Answer) == 0 && q.Name == reverse:
		res.Authority = z.soa(x, reverse)
	case len(res.Answer) == 0:
		res.Rcode = dns.RcodeNameError
		res.Authority = z.soa(x, reverse)
	case q.Type != dns.TypePTR:
		res.Answer, res.Authority = nil, z.soa(x, reverse)
	}
	return res
}

// soa is the record of a zone's start, of the cluster's or of one of addresses.
func (z *Zone) soa(x *index.Index, zone string) []dns.RR {
	h := z.header(zone, dns.TypeSOA)
	h.Ttl = min(h.Ttl, maxDenial)
	return []dns.RR{&dns.SOA{
		Hdr: h, Ns: "ns.dns." + z.Domain, Mbox: "hostmaster." + z.Domain,
		Serial: x.Serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: z.TTL,
	}}
}

func (z *Zone) header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: z.TTL}
}

func isAddress(qtype uint16) bool { return qtype == dns.TypeA || qtype == dns.TypeAAAA }

// ReverseAddr parses a full in-addr.arpa or ip6.arpa name.
func ReverseAddr(name string) (netip.Addr, bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		l := strings.Split(rest, ".")
		if len(l) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(l[3] + "." + l[2] + "." + l[1] + "." + l[0])
		return a, err == nil
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa.")
	if !ok || len(rest) != 63 {
		return netip.Addr{}, false
	}
	l := strings.Split(rest, ".")
	if len(l) != 32 {
		return netip.Addr{}, false
	}
	var b strings.Builder
	for i := 31; i >= 0; i-- {
		b.WriteString(l[i])
		if i%4 == 0 && i > 0 {
			b.WriteByte(':')
		}
	}
	a, err := netip.ParseAddr(b.String())
	return a, err == nil
}

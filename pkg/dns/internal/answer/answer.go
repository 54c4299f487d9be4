// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package answer computes DNS answers from the index, after the specification "Kubernetes DNS-Based Service Discovery"
// 1.1.0. It is pure; touch it when a name should resolve to something else.
package answer

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"minik8s.io/minik8s/pkg/dns/internal/index"
)

// SchemaVersion is what dns-version.<zone> says.
const SchemaVersion = "1.1.0"

// schemaTTL is the lifetime, in seconds, that the specification's example gives to the schema version.
const schemaTTL = 28800

// Zone is what answers depend on besides the index.
type Zone struct {
	// Domain is the cluster domain, fully qualified and in lower case.
	Domain string
	// TTL in seconds of all cluster records.
	TTL uint32
	// NameServers are the addresses at which clients reach this server.
	NameServers []netip.Addr
	// VerifyPods answers for pod names only if such a pod exists.
	VerifyPods bool
}

// Result is an answer before it becomes a message.
type Result struct {
	// Handled is false if the name is none of the cluster's, and another server must be asked.
	Handled bool
	Rcode   int
	Answer  []dns.RR
	Extra   []dns.RR
	// Authority is the SOA record of a negative answer.
	Authority []dns.RR
	// Target is set if the answer is an alias to a name that is none of the cluster's; its records are still to
	// be appended.
	Target string
}

// maxAliases bounds a chain of ExternalName services that point at one another.
const maxAliases = 8

// For answers one question of class IN.
func (z Zone) For(x *index.Index, q dns.Question) Result {
	name := strings.ToLower(q.Name)
	if addr, ok := reverseAddr(name); ok {
		return z.pointer(x, q, addr)
	}
	if !dns.IsSubDomain(z.Domain, name) {
		return Result{}
	}
	var aliases []dns.RR
	owner := q.Name
	for range maxAliases {
		r := z.lookup(x, strings.ToLower(owner))
		res := z.render(x, r, owner, q.Qtype)
		res.Answer = append(aliases, res.Answer...)
		if r.alias == "" || q.Qtype == dns.TypeCNAME || !isAddress(q.Qtype) {
			return res
		}
		aliases = res.Answer
		owner = dns.Fqdn(r.alias)
		if !dns.IsSubDomain(z.Domain, strings.ToLower(owner)) {
			res.Target = owner
			return res
		}
	}
	return Result{Handled: true, Rcode: dns.RcodeServerFailure}
}

// records is what exists at a name. A name that exists without records of the asked type is not an error.
type records struct {
	exists bool
	apex   bool
	text   string
	alias  string
	addrs  []netip.Addr
	srv    []target
}

type target struct {
	host string // fully qualified
	port uint16
	addr []netip.Addr
}

// lookup finds what exists at a lower-case name in the zone. It is one flat list of the shapes a name can have.
func (z Zone) lookup(x *index.Index, name string) records {
	rest := strings.TrimSuffix(strings.TrimSuffix(name, z.Domain), ".")
	if rest == "" {
		return records{exists: true, apex: true}
	}
	l := dns.SplitDomainName(rest)
	n := len(l)
	switch {
	case rest == "dns-version":
		return records{exists: true, text: SchemaVersion}
	case rest == "ns.dns":
		return records{exists: true, addrs: z.NameServers}
	case rest == "dns", rest == "svc", rest == "pod":
		return records{exists: true}
	case n == 2 && (l[1] == "svc" || l[1] == "pod"):
		return records{exists: x.HasNamespace(l[0])}
	case n == 3 && l[2] == "pod":
		return z.pod(x, l[0], l[1])
	case n == 3 && l[2] == "svc":
		return z.service(x.Service(l[1], l[0]), "", "")
	case n == 4 && l[3] == "svc":
		return z.endpoint(x.Service(l[2], l[1]), l[0])
	case n == 5 && l[4] == "svc" && strings.HasPrefix(l[0], "_") && strings.HasPrefix(l[1], "_"):
		return z.service(x.Service(l[3], l[2]), l[0][1:], l[1][1:])
	}
	return records{}
}

// service returns the records of a service, or of one of its named ports.
func (z Zone) service(s *index.Service, port, proto string) records {
	if s == nil {
		return records{}
	}
	wanted := func(p index.Port) bool { return proto == "" || p.Name == port && p.Protocol == proto }
	domain := s.Domain() + ".svc." + z.Domain
	switch {
	case s.ExternalName != "":
		if _, err := netip.ParseAddr(s.ExternalName); err == nil || proto != "" {
			return records{} // an address is no name that an alias could point to
		}
		return records{exists: true, alias: s.ExternalName}
	case s.Headless():
		// Without a ready endpoint the name does not exist (section 2.4.1).
		var r records
		for _, e := range s.Endpoints {
			match := proto == ""
			for _, p := range e.Ports {
				if wanted(p) {
					match = true
					r.srv = append(r.srv, target{e.Host + "." + domain, p.Port, []netip.Addr{e.Addr}})
				}
			}
			if match {
				r.exists = true
				r.addrs = append(r.addrs, e.Addr)
			}
		}
		return r
	}
	r := records{exists: proto == "", addrs: s.ClusterIPs}
	for _, p := range s.Ports {
		if wanted(p) {
			r.exists = true
			r.srv = append(r.srv, target{domain, p.Port, s.ClusterIPs})
		}
	}
	return r
}

// endpoint returns the records of one endpoint's hostname.
func (z Zone) endpoint(s *index.Service, host string) records {
	if s == nil {
		return records{}
	}
	var r records
	for _, e := range s.Host(host) {
		r.exists = true
		r.addrs = append(r.addrs, e.Addr)
		for _, p := range e.Ports {
			r.srv = append(r.srv, target{host + "." + s.Domain() + ".svc." + z.Domain, p.Port, []netip.Addr{e.Addr}})
		}
	}
	return r
}

// pod answers the deprecated records of section 2.6. Without verification any address of an existing namespace is echoed,
// which is what clusters have by default.
func (z Zone) pod(x *index.Index, label, namespace string) records {
	if !x.HasNamespace(namespace) {
		return records{}
	}
	text := strings.ReplaceAll(label, "-", ":")
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		text = strings.ReplaceAll(label, "-", ".")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || z.VerifyPods && !x.HasPod(index.PodKey{Namespace: namespace, Addr: addr.Unmap()}) {
		return records{}
	}
	return records{exists: true, addrs: []netip.Addr{addr.Unmap()}}
}

func (z Zone) render(x *index.Index, r records, owner string, qtype uint16) Result {
	res := Result{Handled: true, Rcode: dns.RcodeSuccess}
	if !r.exists {
		res.Rcode = dns.RcodeNameError
		res.Authority = z.soa(x)
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
		res.Answer = z.soa(x)
	case qtype == dns.TypeNS && r.apex:
		ns := "ns.dns." + z.Domain
		res.Answer = []dns.RR{&dns.NS{Hdr: z.header(owner, dns.TypeNS), Ns: ns}}
		res.Extra = append(z.addresses(ns, z.NameServers, dns.TypeA), z.addresses(ns, z.NameServers, dns.TypeAAAA)...)
	}
	if len(res.Answer) == 0 {
		res.Authority = z.soa(x)
	}
	return res
}

func (z Zone) addresses(owner string, addrs []netip.Addr, qtype uint16) []dns.RR {
	var out []dns.RR
	seen := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		if seen[a] || a.Is4() != (qtype == dns.TypeA) {
			continue
		}
		seen[a] = true
		if a.Is4() {
			out = append(out, &dns.A{Hdr: z.header(owner, dns.TypeA), A: a.AsSlice()})
		} else {
			out = append(out, &dns.AAAA{Hdr: z.header(owner, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return out
}

// srv shares the weight of 100 evenly, and adds each target's addresses.
func (z Zone) srv(owner string, targets []target) (answer, extra []dns.RR) {
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

// pointer answers reverse lookups. Addresses that are none of the cluster's are left to other servers.
func (z Zone) pointer(x *index.Index, q dns.Question, addr netip.Addr) Result {
	names := x.Names(addr)
	if len(names) == 0 {
		return Result{}
	}
	res := Result{Handled: true}
	if q.Qtype != dns.TypePTR {
		res.Authority = z.soa(x)
		return res
	}
	for _, n := range names {
		res.Answer = append(res.Answer, &dns.PTR{Hdr: z.header(q.Name, dns.TypePTR), Ptr: n + ".svc." + z.Domain})
	}
	return res
}

func (z Zone) soa(x *index.Index) []dns.RR {
	return []dns.RR{&dns.SOA{
		Hdr: z.header(z.Domain, dns.TypeSOA), Ns: "ns.dns." + z.Domain, Mbox: "hostmaster." + z.Domain,
		Serial: x.Serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: z.TTL,
	}}
}

func (z Zone) header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: z.TTL}
}

func isAddress(qtype uint16) bool { return qtype == dns.TypeA || qtype == dns.TypeAAAA }

// reverseAddr parses a full in-addr.arpa or ip6.arpa name.
func reverseAddr(name string) (netip.Addr, bool) {
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

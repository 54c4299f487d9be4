// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"github.com/miekg/dns"

	"minik8s.io/minik8s/pkg/dns/internal/answer"
	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/message"
)

// fromHosts answers from the entries of hosts. A name without an entry is for the next plugin only with fallthrough; otherwise
// it fails as in CoreDNS, which has no SOA by which it could deny it. Addresses without a name are always for the next plugin.
func fromHosts(h *corefile.Hosts, q message.Question) (message.Reply, bool) {
	r := message.Reply{Authoritative: true, Plugin: "hosts"}
	if q.Type == dns.TypePTR {
		header := dns.RR_Header{Name: q.Name, Rrtype: q.Type, Class: dns.ClassINET, Ttl: h.TTL}
		addr, _ := answer.ReverseAddr(q.Name)
		for _, name := range h.Addrs[addr] {
			r.Answer = append(r.Answer, &dns.PTR{Hdr: header, Ptr: name})
		}
		return r, len(r.Answer) > 0
	}
	addrs, known := h.Names[q.Name]
	others, wild := h.Names[wildcard(q.Name)]
	// A name of its own hides the wildcard, but only in the families that it has.
	if r.Answer = addresses(q, addrs, h.TTL); len(r.Answer) == 0 {
		r.Answer = addresses(q, others, h.TTL)
	}
	switch {
	case known || wild:
		return r, true
	case h.Fallthrough.For(q.Name):
		return r, false
	}
	return message.Failed("hosts"), true
}

// wildcard is the name that stands for all beside a name: *.example.org. for a.example.org.
func wildcard(name string) string {
	next, end := dns.NextLabel(name, 0)
	if end {
		return ""
	}
	return "*." + name[next:]
}

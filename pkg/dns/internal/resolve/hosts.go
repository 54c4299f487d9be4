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
// it fails as in CoreDNS, which has no SOA by which it could deny it.
func fromHosts(h *corefile.Hosts, q message.Question) (message.Reply, bool) {
	r := message.Reply{Authoritative: true, Plugin: "hosts"}
	addrs, known := h.Names[q.Name]
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Type, Class: dns.ClassINET, Ttl: h.TTL}
	switch q.Type {
	case dns.TypeA, dns.TypeAAAA:
		r.Answer = addresses(q, addrs, h.TTL)
	case dns.TypePTR:
		addr, _ := answer.ReverseAddr(q.Name)
		for _, name := range h.Addrs[addr] {
			r.Answer = append(r.Answer, &dns.PTR{Hdr: header, Ptr: name})
		}
	}
	switch {
	case known || len(r.Answer) > 0:
		return r, true
	case h.Fallthrough.For(q.Name):
		return r, false
	}
	return message.Failed("hosts"), true
}

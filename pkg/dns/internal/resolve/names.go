// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"minik8s.io/minik8s/pkg/dns/internal/message"
)

// nameTTL is the lifetime in seconds of the names of Dns objects: who comes later than that after a change gets what is new.
const nameTTL = 5

// fromNames answers for the names of Dns objects, in blocks that are for the cluster. Other types than addresses have no data.
func (b *Block) fromNames(q message.Question) (message.Reply, bool) {
	if b.Kubernetes == nil {
		return message.Reply{}, false
	}
	x := b.env.Index()
	if x == nil {
		return message.Reply{}, false
	}
	host, known := x.Host(q.Name)
	if shown := b.Kubernetes.Namespaces; !known || len(shown) > 0 && !slices.Contains(shown, host.Namespace) {
		return message.Reply{}, false
	}
	return message.Reply{Authoritative: true, Plugin: "dns", Answer: addresses(q, host.Addrs, nameTTL)}, true
}

// addresses are the records of a name that are of the type which is asked for.
func addresses(q message.Question, addrs []netip.Addr, ttl uint32) []dns.RR {
	var all []dns.RR
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Type, Class: dns.ClassINET, Ttl: ttl}
	for _, a := range addrs {
		switch {
		case a.Is4() && q.Type == dns.TypeA:
			all = append(all, &dns.A{Hdr: header, A: a.AsSlice()})
		case a.Is6() && q.Type == dns.TypeAAAA:
			all = append(all, &dns.AAAA{Hdr: header, AAAA: a.AsSlice()})
		}
	}
	return all
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"

	"github.com/miekg/dns"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns/internal/forward"
)

// ednsSize is the UDP payload that is safe from fragmentation (DNS flag day 2020).
const ednsSize = 1232

func (s *Server) serve(ctx context.Context, w dns.ResponseWriter, req *dns.Msg) {
	_, udp := w.RemoteAddr().(*net.UDPAddr)
	if err := w.WriteMsg(s.respond(ctx, req, udp)); err != nil {
		klog.FromContext(ctx).V(4).Info("Writing an answer failed", "err", err)
	}
}

// respond makes the whole reply to any message.
func (s *Server) respond(ctx context.Context, req *dns.Msg, udp bool) *dns.Msg {
	size := dns.MaxMsgSize
	if udp {
		size = dns.MinMsgSize
	}
	opt := req.IsEdns0()
	if opt != nil && udp {
		size = max(size, min(int(opt.UDPSize()), 4096))
	}
	reply := s.decide(ctx, req, opt)
	if opt != nil {
		o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		o.SetUDPSize(ednsSize)
		if opt.Do() {
			o.SetDo()
		}
		if reply.Rcode > 0xF {
			o.SetExtendedRcode(uint16(reply.Rcode))
		}
		reply.Extra = append(reply.Extra, o)
	}
	shuffle(reply.Answer)
	reply.Compress = true
	// What does not fit is left out, and the client comes back over TCP.
	reply.Truncate(size)
	return reply
}

func (s *Server) decide(ctx context.Context, req *dns.Msg, opt *dns.OPT) *dns.Msg {
	reply := new(dns.Msg)
	reply.SetReply(req)
	reply.RecursionAvailable = true
	switch {
	case req.Opcode != dns.OpcodeQuery:
		reply.Rcode = dns.RcodeNotImplemented
		return reply
	case len(req.Question) != 1:
		reply.Rcode = dns.RcodeFormatError
		return reply
	case opt != nil && opt.Version() != 0:
		reply.Rcode = dns.RcodeBadVers
		return reply
	}
	q := req.Question[0]
	if q.Qclass != dns.ClassINET || q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		reply.Rcode = dns.RcodeRefused
		return reply
	}
	x := s.index.Load()
	if x == nil {
		if dns.IsSubDomain(s.zone.Domain, dns.CanonicalName(q.Name)) {
			reply.Rcode = dns.RcodeServerFailure
			return reply
		}
		return s.forward(ctx, req, reply)
	}
	r := s.zone.For(x, q)
	if !r.Handled {
		return s.forward(ctx, req, reply)
	}
	reply.Authoritative = true
	reply.Rcode, reply.Answer, reply.Ns, reply.Extra = r.Rcode, r.Answer, r.Authority, r.Extra
	if r.Target != "" {
		s.follow(ctx, req, reply, r.Target)
	}
	return reply
}

// follow appends the records of an alias that leads out of the cluster. If they cannot be had, the alias alone is the answer,
// and a resolver that wants more asks itself.
func (s *Server) follow(ctx context.Context, req, reply *dns.Msg, target string) {
	sub := req.Copy()
	sub.Question[0].Name = target
	got, err := s.ask(ctx, sub)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("Resolving an external name failed", "target", target, "err", err)
		return
	}
	reply.Rcode = got.Rcode
	reply.Answer = append(reply.Answer, got.Answer...)
	reply.Ns = got.Ns
}

func (s *Server) forward(ctx context.Context, req, reply *dns.Msg) *dns.Msg {
	got, err := s.ask(ctx, req)
	if err != nil {
		reply.Rcode = dns.RcodeServerFailure
		if errors.Is(err, forward.ErrNoUpstream) {
			reply.Rcode = dns.RcodeRefused
		}
		klog.FromContext(ctx).V(4).Info("Forwarding failed", "name", req.Question[0].Name, "err", err)
		return reply
	}
	reply.Rcode, reply.Answer, reply.Ns, reply.Extra = got.Rcode, got.Answer, got.Ns, got.Extra
	reply.AuthenticatedData = got.AuthenticatedData
	return reply
}

var errBusy = errors.New("too many questions are being forwarded")

func (s *Server) ask(ctx context.Context, req *dns.Msg) (*dns.Msg, error) {
	select {
	case s.forwards <- struct{}{}:
		defer func() { <-s.forwards }()
	default:
		return nil, errBusy
	}
	return s.forwarder.Ask(ctx, req)
}

// shuffle spreads clients over the addresses of a headless service: most take the first. Aliases keep their place, because
// some clients read a chain only in order.
func shuffle(rrs []dns.RR) {
	first := 0
	for first < len(rrs) && !address(rrs[first]) {
		first++
	}
	last := first
	for last < len(rrs) && address(rrs[last]) {
		last++
	}
	tail := rrs[first:last]
	rand.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
}

func address(rr dns.RR) bool {
	t := rr.Header().Rrtype
	return t == dns.TypeA || t == dns.TypeAAAA
}

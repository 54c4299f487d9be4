// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"time"

	"github.com/miekg/dns"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/forward"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/resolve"
)

// ednsSize is the UDP payload that is safe from fragmentation (DNS flag day 2020).
const ednsSize = 1232

// request is a message and where it came from.
type request struct {
	msg     *dns.Msg
	client  netip.Addr
	remote  net.Addr
	tcp     bool
	started time.Time
}

// respond makes the whole reply to any message, in the buffer if it has room. Without wait it returns message.ErrWait if another
// server must be asked; that is the only error that is not one of this program.
func (s *Server) respond(ctx context.Context, r request, wait bool, buffer []byte) (packed []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.config.Metrics.Panics.Inc()
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "Answering failed", "question", r.msg.Question, "stack", string(debug.Stack()))
			packed, err = r.reply(dns.RcodeServerFailure).PackBuffer(buffer)
		}
	}()
	opt := r.msg.IsEdns0()
	if code := refusal(r.msg, opt); code != dns.RcodeSuccess {
		return s.pack(nil, r, opt, message.Reply{Rcode: code}, buffer)
	}
	here := s.site.Load()
	q := message.Of(r.msg)
	if here == nil {
		return s.pack(nil, r, opt, message.Failed(""), buffer)
	}
	block := here.table.Find(q.Name)
	if block == nil {
		return s.pack(here, r, opt, message.Refused(), buffer)
	}
	reply, err := block.Resolve(ctx, q, wait)
	if err == message.ErrWait { //nolint:errorlint // it is never wrapped
		return nil, err
	}
	if err != nil {
		reply = message.Failed(forward.Plugin)
		if errors.Is(err, forward.ErrNoUpstream) || errors.Is(err, forward.ErrBusy) {
			reply.Rcode = dns.RcodeRefused
		}
		if block.Errors {
			klog.FromContext(ctx).V(2).Info("No answer", "name", q.Name, "type", dns.TypeToString[q.Type], "err", err)
		}
	}
	return s.finish(ctx, here, block, r, opt, reply, buffer)
}

// refusal is the code for what is not answered, whatever it is about.
func refusal(m *dns.Msg, opt *dns.OPT) int {
	switch {
	case m.Opcode != dns.OpcodeQuery:
		return dns.RcodeNotImplemented
	case len(m.Question) != 1:
		return dns.RcodeFormatError
	case opt != nil && opt.Version() != 0:
		return dns.RcodeBadVers
	}
	q := m.Question[0]
	if q.Qclass != dns.ClassINET || q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		return dns.RcodeRefused
	}
	return dns.RcodeSuccess
}

// reply is the start of an answer.
func (r *request) reply(rcode int) *dns.Msg {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{
		Id: r.msg.Id, Response: true, Opcode: r.msg.Opcode, RecursionDesired: r.msg.RecursionDesired, RecursionAvailable: true,
		CheckingDisabled: r.msg.CheckingDisabled, Rcode: rcode,
	}}
	if len(r.msg.Question) > 0 {
		m.Question = r.msg.Question[:1]
	}
	return m
}

// finish packs the answer of a block, counts it, and logs it if the block says so.
func (s *Server) finish(ctx context.Context, here *site, b *resolve.Block, r request, opt *dns.OPT, reply message.Reply, buffer []byte) ([]byte, error) {
	if b.LoadBalance {
		reply.Answer = shuffled(reply.Answer)
	}
	packed, err := s.packCounted(here.counts[b], r, opt, reply, buffer)
	if err == nil && b.Log != nil && logs(b.Log, r.msg.Question[0].Name, reply) {
		q := r.msg.Question[0]
		klog.FromContext(ctx).Info("Answered", "client", r.remote.String(), "id", r.msg.Id, "type", dns.TypeToString[q.Qtype], "name", q.Name,
			"tcp", r.tcp, "rcode", dns.RcodeToString[reply.Rcode], "size", len(packed), "duration", s.config.Clock.Since(r.started))
	}
	return packed, err
}

func (s *Server) pack(here *site, r request, opt *dns.OPT, reply message.Reply, buffer []byte) ([]byte, error) {
	var c *counts
	if here != nil {
		c = here.none
	}
	return s.packCounted(c, r, opt, reply, buffer)
}

func (s *Server) packCounted(c *counts, r request, opt *dns.OPT, reply message.Reply, buffer []byte) ([]byte, error) {
	m := r.reply(reply.Rcode)
	m.Answer, m.Ns, m.Extra = reply.Answer, reply.Authority, reply.Extra
	m.Truncated = reply.Truncated
	// Who asks neither so nor for signatures may not understand AD (RFC 6840, section 5.8).
	m.Authoritative, m.AuthenticatedData = reply.Authoritative, reply.Authenticated && (r.msg.AuthenticatedData || opt != nil && opt.Do())
	if len(m.Question) > 0 {
		keepCase(m)
	}
	size := dns.MaxMsgSize
	if !r.tcp {
		size = dns.MinMsgSize
	}
	if opt == nil && m.Rcode > 0xF {
		m.Rcode = dns.RcodeServerFailure // the others need EDNS
	}
	if opt != nil {
		if !r.tcp {
			size = max(size, min(int(opt.UDPSize()), maxUDP))
		}
		m.Extra = append(slices.Clip(m.Extra), ownOPT(opt, reply.Rcode))
	}
	m.Compress = len(m.Answer)+len(m.Ns)+len(m.Extra) > 1
	if m.Compress || len(m.Answer) > 0 && m.Len() > size { // one record can be too long by itself
		// What does not fit is left out, and the client comes back over TCP.
		m.Truncate(size)
	}
	packed, err := m.PackBuffer(buffer)
	if err == nil {
		c.count(r, reply, len(packed), s.config.Clock.Since(r.started))
	}
	return packed, err
}

// maxUDP is the largest answer by UDP.
const maxUDP = 4096

func ownOPT(asked *dns.OPT, rcode int) *dns.OPT {
	o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	o.SetUDPSize(ednsSize)
	if asked.Do() {
		o.SetDo()
	}
	if rcode > 0xF {
		o.SetExtendedRcode(uint16(rcode))
	}
	return o
}

// keepCase gives the records of the name that was asked for its letters as they were asked: clients compare them, as a
// protection against forged answers.
func keepCase(m *dns.Msg) {
	asked := m.Question[0].Name
	lower := message.Lower(asked)
	if lower == asked {
		return
	}
	for _, section := range []*[]dns.RR{&m.Answer, &m.Extra} {
		out := make([]dns.RR, len(*section))
		for i, rr := range *section {
			out[i] = rr
			if rr.Header().Name == lower {
				out[i] = dns.Copy(rr)
				out[i].Header().Name = asked
			}
		}
		*section = out
	}
}

// shuffled spreads clients over the addresses of a headless service: most take the first. Aliases keep their place, because
// some clients read a chain only in order.
func shuffled(rrs []dns.RR) []dns.RR {
	first := 0
	for first < len(rrs) && !address(rrs[first]) {
		first++
	}
	last := first
	for last < len(rrs) && address(rrs[last]) {
		last++
	}
	if last-first < 2 {
		return rrs
	}
	out := append([]dns.RR(nil), rrs...)
	tail := out[first:last]
	rand.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
	return out
}

func address(rr dns.RR) bool {
	t := rr.Header().Rrtype
	return t == dns.TypeA || t == dns.TypeAAAA
}

// logs tells whether an answer is of a name and a class that are logged.
func logs(l *corefile.Log, name string, r message.Reply) bool {
	if !corefile.Within(message.Lower(name), l.Names) {
		return false
	}
	class := "error"
	switch {
	case r.Rcode == dns.RcodeNameError, r.Rcode == dns.RcodeSuccess && len(r.Answer) == 0:
		class = "denial"
	case r.Rcode == dns.RcodeSuccess:
		class = "success"
	}
	for _, c := range l.Classes {
		if c == "all" || c == class {
			return true
		}
	}
	return false
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package forward asks other name servers for what is none of the cluster's, with a small cache. Touch it for upstream
// selection, retries and caching.
package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
)

const (
	// maxTTL bounds how long an answer is kept, so that changes outside are seen soon.
	maxTTL = 30 * time.Second
	// maxEntries bounds the cache's memory.
	maxEntries = 4096
	// attemptTimeout is for one server, totalTimeout for all of them.
	attemptTimeout = 2 * time.Second
	totalTimeout   = 5 * time.Second
	udpSize        = 1232
)

// ErrNoUpstream means that there is no server to ask.
var ErrNoUpstream = errors.New("no upstream name server")

// Forwarder asks upstream servers. It is safe for concurrent use.
type Forwarder struct {
	upstreams func() []string
	clock     clock.PassiveClock
	// Equal questions are asked once at a time. This also stops a loop through a server that asks us again: the
	// question that comes back waits for itself and ends at the timeout, instead of multiplying.
	flight singleflight.Group

	mu    sync.Mutex
	cache map[key]entry // guarded by mu
}

type key struct {
	name         string
	qtype        uint16
	dnssec, noCD bool
}

type entry struct {
	msg             *dns.Msg
	stored, expires time.Time
}

// New returns a Forwarder. The function gives the servers, host:port in order of preference, whenever one is needed.
func New(upstreams func() []string, clk clock.PassiveClock) *Forwarder {
	return &Forwarder{upstreams: upstreams, clock: clk, cache: map[key]entry{}}
}

// Ask resolves the request's first question. The answer is the caller's to change; its ID and question are the upstream's.
func (f *Forwarder) Ask(ctx context.Context, req *dns.Msg) (*dns.Msg, error) {
	q := req.Question[0]
	k := key{name: strings.ToLower(q.Name), qtype: q.Qtype, noCD: !req.CheckingDisabled}
	if opt := req.IsEdns0(); opt != nil {
		k.dnssec = opt.Do()
	}
	if m := f.cached(k); m != nil {
		return m, nil
	}
	flight := f.flight.DoChan(fmt.Sprintf("%+v", k), func() (any, error) {
		// The others who wait must not fail because the first gave up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), totalTimeout)
		defer cancel()
		m, err := f.exchange(ctx, k)
		if err == nil {
			f.store(k, m)
		}
		return m, err
	})
	select {
	case r := <-flight:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*dns.Msg).Copy(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *Forwarder) exchange(ctx context.Context, k key) (*dns.Msg, error) {
	query := new(dns.Msg)
	query.SetQuestion(k.name, k.qtype)
	query.CheckingDisabled = !k.noCD
	query.SetEdns0(udpSize, k.dnssec)
	servers := f.upstreams()
	if len(servers) == 0 {
		return nil, ErrNoUpstream
	}
	var errs []error
	for _, server := range servers {
		m, err := attempt(ctx, query, server)
		if err == nil && m.Rcode != dns.RcodeServerFailure && m.Rcode != dns.RcodeRefused {
			return m, nil
		}
		if err == nil {
			err = fmt.Errorf("server answered %s", dns.RcodeToString[m.Rcode])
		}
		errs = append(errs, fmt.Errorf("asking %s: %w", server, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func attempt(ctx context.Context, query *dns.Msg, server string) (*dns.Msg, error) {
	c := &dns.Client{Timeout: attemptTimeout}
	m, _, err := c.ExchangeContext(ctx, query, server)
	if err == nil && m.Truncated {
		c.Net = "tcp"
		m, _, err = c.ExchangeContext(ctx, query, server)
	}
	if err != nil {
		return nil, err
	}
	// The OPT record concerns one hop only.
	m.Extra = withoutOPT(m.Extra)
	return m, nil
}

func withoutOPT(rrs []dns.RR) []dns.RR {
	var out []dns.RR
	for _, rr := range rrs {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}

func (f *Forwarder) cached(k key) *dns.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.cache[k]
	now := f.clock.Now()
	if !ok || !now.Before(e.expires) {
		return nil
	}
	m := e.msg.Copy()
	age := uint32(now.Sub(e.stored) / time.Second)
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			h := rr.Header()
			h.Ttl -= min(h.Ttl, age)
		}
	}
	return m
}

func (f *Forwarder) store(k key, m *dns.Msg) {
	ttl := lifetime(m)
	if ttl == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if len(f.cache) >= maxEntries {
		for old, e := range f.cache {
			if !now.Before(e.expires) {
				delete(f.cache, old)
			}
		}
	}
	for old := range f.cache {
		if len(f.cache) < maxEntries {
			break
		}
		delete(f.cache, old) // any; the next question brings it back
	}
	f.cache[k] = entry{msg: m.Copy(), stored: now, expires: now.Add(ttl)}
}

// lifetime is the least TTL of a positive answer, or the SOA's bound on a negative one (RFC 2308); 0 means do not keep.
func lifetime(m *dns.Msg) time.Duration {
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return 0
	}
	ttl, bounded := uint32(maxTTL/time.Second), false
	for _, rr := range m.Answer {
		ttl, bounded = min(ttl, rr.Header().Ttl), true
	}
	if m.Rcode == dns.RcodeNameError || len(m.Answer) == 0 {
		bounded = false
		for _, rr := range m.Ns {
			if soa, ok := rr.(*dns.SOA); ok {
				ttl, bounded = min(ttl, soa.Minttl, soa.Hdr.Ttl), true
			}
		}
	}
	if !bounded {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

// ResolvConf returns the upstreams function that reads a resolv.conf again when five seconds have passed. Servers for which
// own is true are left out: asking them would be asking ourselves.
func ResolvConf(path string, own func(netip.AddrPort) bool, clk clock.PassiveClock, report func(error)) func() []string {
	var mu sync.Mutex
	var servers []string
	var read time.Time
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		if !read.IsZero() && clk.Since(read) < 5*time.Second {
			return servers
		}
		read = clk.Now()
		c, err := dns.ClientConfigFromFile(path)
		if err != nil {
			report(fmt.Errorf("reading name servers: %w", err))
			return servers
		}
		var found []string
		for _, s := range c.Servers {
			found = append(found, net.JoinHostPort(s, c.Port))
		}
		servers = Foreign(found, own)
		return servers
	}
}

// Foreign returns the servers, given as host or host:port, that are not our own, with their ports.
func Foreign(servers []string, own func(netip.AddrPort) bool) []string {
	var out []string
	for _, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(strings.Trim(s, "[]"), "53")
		}
		if ap, err := netip.ParseAddrPort(s); err == nil && own(ap) {
			continue
		}
		out = append(out, s)
	}
	return out
}

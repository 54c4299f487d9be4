// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package forward asks other name servers, as CoreDNS's plugin forward. Touch it for which server is asked, how often, and when
// one counts as down.
package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

const (
	// attemptTimeout is for one server, totalTimeout for all of them: CoreDNS's.
	attemptTimeout = 2 * time.Second
	totalTimeout   = 5 * time.Second
	udpSize        = 1232
	// most bounds the questions in flight of a forward without max_concurrent, for the memory and the sockets that they take.
	most = 4096
)

// Plugin is the name under which answers are counted.
const Plugin = "forward"

// Errors of questions that were not asked.
var (
	ErrNoUpstream = errors.New("no upstream name server")
	ErrBusy       = errors.New("too many questions are being forwarded")
)

// Env is what a Forwarder is given by who makes it.
type Env struct {
	// ResolvConf replaces the path of a file; "none" stands for one without servers.
	ResolvConf func(path string) string
	// Own tells whether a server is this one: asking it would be asking ourselves.
	Own     func(netip.AddrPort) bool
	Clock   clock.PassiveClock
	Metrics *metrics.Set
}

// Forwarder asks the servers of one forward. It is safe for concurrent use.
type Forwarder struct {
	config  corefile.Forward
	env     Env
	sources []func() []string
	slots   chan struct{}
	turn    atomic.Uint32
	// Equal questions are asked once at a time. This also stops a loop through a server that asks us again: the
	// question that comes back waits for itself and ends at the timeout, instead of multiplying.
	flight singleflight.Group

	ctx   context.Context //nolint:containedctx // that of the checks, which outlive each question
	close context.CancelFunc
	wg    sync.WaitGroup

	mu        sync.Mutex
	upstreams map[string]*upstream // guarded by mu
	closed    bool                 // guarded by mu
}

// New returns a Forwarder, which must be closed.
func New(config corefile.Forward, env Env) *Forwarder {
	f := &Forwarder{config: config, env: env, upstreams: map[string]*upstream{}}
	f.ctx, f.close = context.WithCancel(context.Background())
	bound := config.MaxConcurrent
	if bound == 0 {
		bound = most
	}
	f.slots = make(chan struct{}, bound)
	for _, to := range config.To {
		if !strings.HasPrefix(to, "/") {
			f.sources = append(f.sources, func() []string { return Foreign([]string{to}, env.Own) })
			continue
		}
		if path := env.ResolvConf(to); path != "none" {
			f.sources = append(f.sources, ResolvConf(path, env.Own, env.Clock, func(err error) {
				klog.Background().Error(err, "Upstream name servers cannot be read")
			}))
		}
	}
	return f
}

// Close ends the checks of servers. Questions in flight end by themselves.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.close()
	f.wg.Wait()
}

// Concerns tells whether the forward is for a lower-case name.
func (f *Forwarder) Concerns(name string) bool {
	return dns.IsSubDomain(f.config.From, name) && !corefile.Within(name, f.config.Except)
}

// Ask resolves a question. Failures that a server told are replies, not errors. It waits no longer than five seconds.
func (f *Forwarder) Ask(ctx context.Context, q message.Question) (message.Reply, error) {
	flight := f.flight.DoChan(fmt.Sprintf("%s %d %v %v", q.Name, q.Type, q.DNSSEC, q.Unchecked), func() (any, error) {
		select {
		case f.slots <- struct{}{}:
			defer func() { <-f.slots }()
		default:
			f.env.Metrics.ForwardRejects.Inc()
			return nil, ErrBusy
		}
		// The others who wait must not fail because the first gave up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), totalTimeout)
		defer cancel()
		return f.exchange(ctx, q)
	})
	select {
	case r := <-flight:
		if r.Err != nil {
			return message.Reply{}, r.Err
		}
		return r.Val.(message.Reply), nil
	case <-ctx.Done():
		return message.Reply{}, ctx.Err()
	}
}

func (f *Forwarder) exchange(ctx context.Context, q message.Question) (message.Reply, error) {
	servers := f.order()
	if len(servers) == 0 {
		return message.Reply{}, ErrNoUpstream
	}
	up := slices.DeleteFunc(slices.Clone(servers), func(u *upstream) bool { return u.down(f.config.MaxFails) })
	if len(up) == 0 {
		f.env.Metrics.ForwardBroken.Inc()
		if f.config.FailFast {
			return message.Reply{}, errors.New("no upstream name server is well")
		}
		up = servers // maybe it is the checks that fail
	}
	var errs []error
	var told *message.Reply
	for _, u := range up {
		m, err := f.attempt(ctx, u, f.query(q))
		if err == nil {
			r := reply(m)
			if !slices.Contains(f.config.Failover, m.Rcode) {
				return r, nil
			}
			told = &r
			err = fmt.Errorf("server answered %s", dns.RcodeToString[m.Rcode])
		} else {
			f.suspect(u)
		}
		errs = append(errs, fmt.Errorf("asking %s: %w", u.addr, err))
		if ctx.Err() != nil {
			break
		}
	}
	if told != nil {
		return *told, nil
	}
	return message.Reply{}, errors.Join(errs...)
}

func reply(m *dns.Msg) message.Reply {
	return message.Reply{
		Rcode: m.Rcode, Answer: m.Answer, Authority: m.Ns, Extra: withoutOPT(m.Extra),
		Authenticated: m.AuthenticatedData, Truncated: m.Truncated, Plugin: Plugin,
	}
}

func (f *Forwarder) query(q message.Question) *dns.Msg {
	m := new(dns.Msg).SetQuestion(q.Name, q.Type)
	// Who validates tells then that it has (RFC 6840, section 5.7). Whether the client hears of it is the envelope's matter.
	m.CheckingDisabled, m.AuthenticatedData = q.Unchecked, true
	return m.SetEdns0(udpSize, q.DNSSEC)
}

// attempt asks one server, again without EDNS and AD if it does not know them (RFC 6891, section 7), for most clients ask so, and again by
// TCP for what does not fit.
func (f *Forwarder) attempt(ctx context.Context, u *upstream, query *dns.Msg) (*dns.Msg, error) {
	started := f.env.Clock.Now()
	c := &dns.Client{Timeout: attemptTimeout}
	if f.config.ForceTCP {
		c.Net = "tcp"
	}
	m, err := exchange(ctx, c, query, u.addr)
	if err == nil && !understood(m) {
		query.Extra, query.AuthenticatedData = nil, false
		m, err = exchange(ctx, c, query, u.addr)
	}
	if err == nil && m.Truncated && c.Net == "" {
		c.Net = "tcp"
		// Some servers know UDP only. What they tell is better than nothing.
		if whole, err := exchange(ctx, c, query, u.addr); err == nil {
			m = whole
		}
	}
	if err != nil {
		return nil, err
	}
	f.env.Metrics.ProxyDuration.WithLabelValues(Plugin, u.addr, dns.RcodeToString[m.Rcode]).Observe(f.env.Clock.Since(started).Seconds())
	return m, nil
}

// understood is false for what servers answer that know no EDNS. Some repeat no question then.
func understood(m *dns.Msg) bool {
	return m.Rcode != dns.RcodeFormatError && m.Rcode != dns.RcodeNotImplemented
}

// exchange refuses answers to something else. The client drops those with another ID, which are late or forged.
func exchange(ctx context.Context, c *dns.Client, query *dns.Msg, server string) (*dns.Msg, error) {
	m, _, err := c.ExchangeContext(ctx, query, server)
	if err != nil {
		return nil, err
	}
	want := query.Question[0]
	if m.Response && !understood(m) && len(m.Question) == 0 {
		return m, nil
	}
	if !m.Response || len(m.Question) != 1 || m.Question[0].Qtype != want.Qtype || m.Question[0].Qclass != want.Qclass ||
		!strings.EqualFold(m.Question[0].Name, want.Name) {
		return nil, errors.New("server answered something that was not asked")
	}
	return m, nil
}

func withoutOPT(rrs []dns.RR) []dns.RR {
	var out []dns.RR
	for _, rr := range rrs {
		if rr.Header().Rrtype != dns.TypeOPT { // it concerns one hop only
			out = append(out, rr)
		}
	}
	return out
}

// order are the servers as the policy wants them asked.
func (f *Forwarder) order() []*upstream {
	var addrs []string
	for _, source := range f.sources {
		addrs = append(addrs, source()...)
	}
	switch n := len(addrs); {
	case n < 2 || f.config.Policy == "sequential":
	case f.config.Policy == "round_robin":
		i := int(f.turn.Add(1)-1) % n
		addrs = slices.Concat(addrs[i:], addrs[:i])
	default:
		addrs = slices.Clone(addrs)
		rand.Shuffle(n, func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*upstream
	for _, a := range addrs {
		u := f.upstreams[a]
		if u == nil {
			u = &upstream{addr: a}
			f.upstreams[a] = u
		}
		if !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	for a := range f.upstreams { // a file has changed
		if !slices.Contains(addrs, a) {
			delete(f.upstreams, a)
		}
	}
	return list
}

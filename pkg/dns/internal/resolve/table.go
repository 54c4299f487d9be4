// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resolve is a Corefile at work: a question finds its server block, and passes the plugins of that in CoreDNS's order.
// Touch it for that order, and for plugins that need no package of their own.
package resolve

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/dns/internal/answer"
	"minik8s.io/minik8s/pkg/dns/internal/cache"
	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/forward"
	"minik8s.io/minik8s/pkg/dns/internal/index"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

// Env is what server blocks need besides the Corefile.
type Env struct {
	// Index is the state of the cluster, nil while it is not known.
	Index func() *index.Index
	// NameServers are the addresses at which clients reach this server.
	NameServers []netip.Addr
	Forward     forward.Env
	Clock       clock.PassiveClock
	Metrics     *metrics.Set
	// Background runs something beside the answers; the context ends with the server.
	Background func(func(context.Context))
}

// Table are the server blocks. It is safe for concurrent use.
type Table struct {
	blocks map[string]*Block
	list   []*Block
}

// New makes server blocks. Close must be called.
func New(servers []corefile.Server, env Env) *Table {
	t := &Table{blocks: map[string]*Block{}}
	env.Metrics.Plugins.Reset()
	env.Metrics.CacheEntries.Reset()
	env.Metrics.Hosts.Set(0)
	for _, s := range servers {
		b := newBlock(s, t, env)
		t.list = append(t.list, b)
		for _, zone := range s.Zones {
			t.blocks[zone] = b
			for _, p := range s.Plugins {
				env.Metrics.Plugins.WithLabelValues(metrics.Server, zone, "", p).Set(1)
			}
		}
	}
	return t
}

// Close ends what the blocks do by themselves. Questions that are being answered still are.
func (t *Table) Close() {
	for _, b := range t.list {
		for _, f := range b.forwards {
			f.Close()
		}
	}
}

// Blocks are all server blocks.
func (t *Table) Blocks() []*Block { return t.list }

// Find returns the block of the longest zone that a lower-case name is in, nil if there is none.
func (t *Table) Find(name string) *Block {
	for {
		if b := t.blocks[name]; b != nil {
			return b
		}
		if name == "." {
			return nil
		}
		_, rest, _ := strings.Cut(name, ".")
		if rest == "" {
			rest = "."
		}
		name = rest
	}
}

// VerifiesPods tells whether some block wants to know which pods there are.
func (t *Table) VerifiesPods() bool {
	for _, b := range t.list {
		if k := b.Kubernetes; k != nil && k.Pods == corefile.PodsVerified {
			return true
		}
	}
	return false
}

// Block is a server block.
type Block struct {
	corefile.Server
	// Zone is the first of its zones, which stands for the block in metrics.
	Zone string

	table    *Table
	env      Env
	zones    []answer.Zone
	cache    *cache.Cache
	forwards []*forward.Forwarder
}

func newBlock(s corefile.Server, t *Table, env Env) *Block {
	b := &Block{Server: s, Zone: s.Zones[0], table: t, env: env}
	if k := s.Kubernetes; k != nil {
		for i, domain := range k.Domains {
			z := answer.Zone{
				Domain: domain, TTL: k.TTL, NameServers: env.NameServers, Pods: k.Pods, Namespaces: k.Namespaces,
				NoEndpoints: k.NoEndpoints, IgnoreEmpty: k.IgnoreEmpty,
			}
			if i == 0 {
				z.Reverse = k.Reverse
			}
			b.zones = append(b.zones, z)
		}
	}
	if s.Cache != nil {
		b.cache = cache.New(*s.Cache, b.Zone, env.Clock, env.Metrics)
	}
	for _, f := range s.Forward {
		b.forwards = append(b.forwards, forward.New(f, env.Forward))
	}
	if s.Hosts != nil {
		env.Metrics.Hosts.Add(float64(len(s.Hosts.Names)))
	}
	return b
}

// maxDepth bounds how often an alias, or a rule that rewrites, leads to another question.
const maxDepth = 8

// Resolve answers a question. Without wait it returns message.ErrWait where another server would have to be asked.
func (b *Block) Resolve(ctx context.Context, q message.Question, wait bool) (message.Reply, error) {
	return b.resolve(ctx, q, wait, 0)
}

func (b *Block) resolve(ctx context.Context, q message.Question, wait bool, depth int) (message.Reply, error) {
	if len(b.Rewrite) > 0 {
		changed, used, err := rewrite(b.Rewrite, q)
		if err != nil {
			return message.Reply{}, err
		}
		if len(used) > 0 {
			r, err := b.answer(ctx, changed, wait, depth)
			if err != nil {
				return r, err
			}
			return revert(used, r), nil
		}
	}
	return b.answer(ctx, q, wait, depth)
}

// answer goes through the plugins that answer: hosts, kubernetes, with it the names of Dns objects, and cache before forward. What the cluster knows is not
// cached, for it is at hand, and so that a change is seen at once.
func (b *Block) answer(ctx context.Context, q message.Question, wait bool, depth int) (message.Reply, error) {
	if b.Hosts != nil {
		if r, ok := fromHosts(b.Hosts, q); ok {
			return r, nil
		}
	}
	if z := b.zone(q.Name); z != nil {
		x := b.env.Index()
		if x == nil {
			return message.Failed(answer.Plugin), nil
		}
		switch r := z.For(x, q); {
		case r.Rcode == dns.RcodeNameError && b.Kubernetes.Fallthrough.For(q.Name):
		case r.Target == "":
			return r.Reply, nil
		default:
			return b.follow(ctx, q, r, wait, depth)
		}
	}
	if r, ok := b.fromNames(q); ok {
		return r, nil
	}
	return b.outside(ctx, q, wait)
}

// zone is the one of the cluster's zones that is the longest of those that a name is in, nil if it is in none.
func (b *Block) zone(name string) *answer.Zone {
	var found *answer.Zone
	longest := ""
	for i := range b.zones {
		if m := b.zones[i].Match(name); len(m) > len(longest) {
			found, longest = &b.zones[i], m
		}
	}
	return found
}

// follow appends the records of an alias that leads elsewhere. If they cannot be had, the alias alone is the answer, and a
// resolver that wants more asks itself.
func (b *Block) follow(ctx context.Context, q message.Question, r answer.Result, wait bool, depth int) (message.Reply, error) {
	next := q
	next.Name = r.Target
	other := b.table.Find(next.Name)
	if other == nil || depth >= maxDepth {
		return r.Reply, nil
	}
	got, err := other.resolve(ctx, next, wait, depth+1)
	if err != nil || got.Rcode == dns.RcodeServerFailure || got.Rcode == dns.RcodeRefused {
		if err == message.ErrWait { //nolint:errorlint // it is never wrapped
			return r.Reply, err
		}
		return r.Reply, nil
	}
	reply := r.Reply
	reply.Rcode = got.Rcode
	reply.Answer = append(slices.Clip(reply.Answer), got.Answer...)
	reply.Authority, reply.Truncated = got.Authority, got.Truncated
	return reply, nil
}

// outside answers from the cache, or else from the servers of the first forward that is for the name.
func (b *Block) outside(ctx context.Context, q message.Question, wait bool) (message.Reply, error) {
	var f *forward.Forwarder
	for _, candidate := range b.forwards {
		if candidate.Concerns(q.Name) {
			f = candidate
			break
		}
	}
	if f == nil {
		return message.Refused(), nil
	}
	if b.cache == nil || !b.cache.Concerns(q) {
		if !wait {
			return message.Reply{}, message.ErrWait
		}
		return f.Ask(ctx, q)
	}
	cached, state, refresh := b.cache.Get(q, wait)
	verify := b.cache.Verify()
	switch {
	case state == cache.Fresh, state == cache.Stale && verify == 0:
		if refresh {
			b.env.Background(func(ctx context.Context) { _, _ = b.fetch(ctx, f, q) })
		}
		return cached, nil
	case !wait:
		return message.Reply{}, message.ErrWait
	case state == cache.Missing:
		return b.fetch(ctx, f, q)
	}
	if r, ok := b.verified(ctx, f, q, verify); ok {
		return r, nil
	}
	return cached, nil
}

// verified asks anew instead of telling what is stale, for no longer than the limit unless that is below 0. What is answered later is
// kept for who asks next.
func (b *Block) verified(ctx context.Context, f *forward.Forwarder, q message.Question, limit time.Duration) (message.Reply, bool) {
	got := make(chan message.Reply, 1)
	ask := func(ctx context.Context) {
		defer close(got)
		r, err := b.fetch(ctx, f, q)
		if err == nil && (r.Rcode == dns.RcodeSuccess || r.Rcode == dns.RcodeNameError) { // RFC 8767, section 4
			got <- r
		}
	}
	if limit < 0 {
		ask(ctx)
		r, ok := <-got
		return r, ok
	}
	b.env.Background(ask)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r, ok := <-got:
		return r, ok
	case <-timer.C:
	case <-ctx.Done():
	}
	return message.Reply{}, false
}

// fetch asks, and keeps the answer.
func (b *Block) fetch(ctx context.Context, f *forward.Forwarder, q message.Question) (message.Reply, error) {
	r, err := f.Ask(ctx, q)
	if err != nil {
		b.cache.Forgo(q)
		return r, err
	}
	return b.cache.Put(q, r), nil
}

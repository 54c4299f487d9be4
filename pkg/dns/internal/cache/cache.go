// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cache keeps what other servers answered, as CoreDNS's plugin cache. Touch it for how long and how much is kept.
package cache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

// State is what a look-up found.
type State int

const (
	// Missing is nothing that may be told.
	Missing State = iota
	// Fresh is an answer within its time.
	Fresh
	// Stale is one after its end, that may still be told.
	Stale
)

// shards bound how many questions wait for one lock.
const shards = 16

// Cache is safe for concurrent use.
type Cache struct {
	config  corefile.Cache
	clock   clock.PassiveClock
	seed    maphash.Seed
	success portion
	denial  portion

	requests, misses, stale, prefetch prometheus.Counter
}

// portion is one half of the cache: positive answers, or negative ones and failures.
type portion struct {
	corefile.Portion
	shards        [shards]shard
	hits, evicted prometheus.Counter
	entries       prometheus.Gauge
}

type shard struct {
	mu      sync.Mutex
	entries map[message.Question]*entry // guarded by mu; nil while empty
}

type entry struct {
	reply           message.Reply
	stored, expires time.Time
	// hits since first count for prefetch; refreshing is set while somebody has it anew.
	hits       atomic.Int32
	first      atomic.Int64
	refreshing atomic.Bool
}

// New returns an empty cache. Zone is that of the server block, for metrics.
func New(config corefile.Cache, zone string, clk clock.PassiveClock, m *metrics.Set) *Cache {
	c := &Cache{
		config: config, clock: clk, seed: maphash.MakeSeed(),
		requests: m.CacheRequests.WithLabelValues(metrics.Server, zone, ""), misses: m.CacheMisses.WithLabelValues(metrics.Server, zone, ""),
		stale: m.CacheStale.WithLabelValues(metrics.Server, zone, ""), prefetch: m.CachePrefetch.WithLabelValues(metrics.Server, zone, ""),
	}
	for kind, p := range map[string]*portion{"success": &c.success, "denial": &c.denial} {
		p.hits = m.CacheHits.WithLabelValues(metrics.Server, kind, zone, "")
		p.evicted = m.CacheEvicted.WithLabelValues(metrics.Server, kind, zone, "")
		p.entries = m.CacheEntries.WithLabelValues(metrics.Server, kind, zone, "")
		p.entries.Set(0)
	}
	c.success.Portion, c.denial.Portion = config.Success, config.Denial
	return c
}

// Concerns tells whether the cache is for a name.
func (c *Cache) Concerns(q message.Question) bool { return corefile.Within(q.Name, c.config.Zones) }

// Get looks a question up. If refresh is true, the caller shall ask anew, and call Put or Forgo: nobody else is told to. Who does not
// want to wait, and would have to, comes again to do so, and is counted then.
func (c *Cache) Get(q message.Question, wait bool) (reply message.Reply, state State, refresh bool) {
	now := c.clock.Now()
	for _, p := range []*portion{&c.success, &c.denial} {
		e := p.shard(c.seed, q).get(q)
		if e == nil || !now.Before(e.expires.Add(c.config.Stale)) {
			continue
		}
		left := e.expires.Sub(now)
		if left <= 0 && c.config.StaleVerify && !wait {
			return message.Reply{}, Stale, true
		}
		c.requests.Inc()
		p.hits.Inc()
		if left > 0 {
			refresh = c.worthFetching(e, now, left) && e.refreshing.CompareAndSwap(false, true)
			return c.tell(e, left), Fresh, refresh
		}
		c.stale.Inc()
		refresh = c.config.StaleVerify || e.refreshing.CompareAndSwap(false, true)
		return c.tell(e, 0), Stale, refresh
	}
	if wait {
		c.requests.Inc()
		c.misses.Inc()
	}
	return message.Reply{}, Missing, true
}

// Verify is how long to wait for a new answer before a stale one is told: 0 not at all, below 0 as long as it takes.
func (c *Cache) Verify() time.Duration {
	switch {
	case !c.config.StaleVerify:
		return 0
	case c.config.StaleTimeout == 0:
		return -1
	}
	return c.config.StaleTimeout
}

// worthFetching tells whether an answer is asked for so often that it shall be had anew before its end.
func (c *Cache) worthFetching(e *entry, now time.Time, left time.Duration) bool {
	if c.config.Prefetch == 0 {
		return false
	}
	// The count begins anew after a while in which nobody asked.
	first := e.first.Load()
	if first == 0 || now.Sub(time.Unix(0, first)) > c.config.PrefetchDuration {
		e.first.Store(now.UnixNano())
		e.hits.Store(0)
	}
	if int(e.hits.Add(1)) < c.config.Prefetch {
		return false
	}
	if left > e.expires.Sub(e.stored)*time.Duration(c.config.PrefetchPercent)/100 {
		return false
	}
	c.prefetch.Inc()
	return true
}

// Forgo says that the answer could not be had anew.
func (c *Cache) Forgo(q message.Question) {
	for _, p := range []*portion{&c.success, &c.denial} {
		if e := p.shard(c.seed, q).get(q); e != nil {
			e.refreshing.Store(false)
		}
	}
}

// tell copies the records, with the time that the whole has left.
func (c *Cache) tell(e *entry, left time.Duration) message.Reply {
	if c.config.KeepTTL {
		return e.reply
	}
	return living(e.reply, left)
}

// living returns a reply of which all records live for so long.
func living(r message.Reply, left time.Duration) message.Reply {
	ttl := uint32((left + time.Second - 1) / time.Second)
	for _, section := range []*[]dns.RR{&r.Answer, &r.Authority, &r.Extra} {
		out := make([]dns.RR, len(*section))
		for i, rr := range *section {
			out[i] = dns.Copy(rr)
			out[i].Header().Ttl = ttl
		}
		*section = out
	}
	return r
}

// Put keeps a reply, if it is one to keep, and returns it as it shall be told: whoever asked first may keep it for as long as the cache
// does, and not for the days that a server may have given it.
func (c *Cache) Put(q message.Question, r message.Reply) message.Reply {
	p, ttl, kept := c.place(q, r)
	r = living(r, ttl)
	if !kept || ttl <= 0 || p.Capacity == 0 {
		c.Forgo(q)
		return r
	}
	if r.Rcode == dns.RcodeServerFailure {
		c.Forgo(q) // what is there stays, and may be had anew by who asks next
	}
	now := c.clock.Now()
	e := &entry{reply: r, stored: now, expires: now.Add(ttl)}
	s := p.shard(c.seed, q)
	s.mu.Lock()
	if s.entries == nil {
		s.entries = map[message.Question]*entry{}
	}
	grown := 0
	if _, ok := s.entries[q]; !ok {
		for old := range s.entries { // any; the next question brings it back
			if len(s.entries) < max(1, p.Capacity/shards) {
				break
			}
			delete(s.entries, old)
			p.evicted.Inc()
			grown--
		}
		grown++
	}
	s.entries[q] = e
	s.mu.Unlock()
	p.entries.Add(float64(grown))
	// What is no longer denied must not be found as denied, nor the other way round.
	if r.Rcode != dns.RcodeServerFailure {
		other := &c.success
		if p == other {
			other = &c.denial
		}
		if other.shard(c.seed, q).drop(q) {
			other.entries.Dec()
		}
	}
	return r
}

// untold is how long an answer lives that does not say it, as in CoreDNS.
const untold = 5 * time.Second

// place is where a reply is kept and for how long it lives, and whether it is kept at all.
func (c *Cache) place(q message.Question, r message.Reply) (p *portion, ttl time.Duration, kept bool) {
	told := denied(r)
	switch {
	case r.Rcode == dns.RcodeServerFailure:
		return &c.denial, c.config.ServFail, !corefile.Within(q.Name, c.denial.Disabled)
	case r.Rcode == dns.RcodeSuccess && hasType(r.Answer, q.Type):
		p, ttl, kept = &c.success, least(r), true
	case r.Rcode == dns.RcodeSuccess && len(r.Answer) == 0 && told < 0:
		// Some servers say so that there are no addresses of a family. Each name would be asked for each time otherwise.
		p, ttl, kept = &c.success, untold, true
	case r.Rcode == dns.RcodeSuccess, r.Rcode == dns.RcodeNameError:
		p, ttl, kept = &c.denial, told, told >= 0
		if !kept { // RFC 2308, section 5
			ttl = untold
		}
	default:
		p, ttl = &c.denial, untold
	}
	return p, min(max(ttl, p.MinTTL), p.MaxTTL), kept && !r.Truncated && !corefile.Within(q.Name, p.Disabled)
}

// hasType tells whether an answer ends in what was asked for, and not only in an alias.
func hasType(rrs []dns.RR, t uint16) bool {
	for _, rr := range rrs {
		if rr.Header().Rrtype == t || t == dns.TypeANY {
			return true
		}
	}
	return false
}

// least is the shortest lifetime of the records.
func least(r message.Reply) time.Duration {
	ttl := ^uint32(0)
	for _, section := range r.Sections() {
		for _, rr := range section {
			ttl = min(ttl, rr.Header().Ttl)
		}
	}
	return time.Duration(ttl) * time.Second
}

// denied is the lifetime of a negative answer, which its SOA tells (RFC 2308); without one it has none.
func denied(r message.Reply) time.Duration {
	for _, rr := range r.Authority {
		if soa, ok := rr.(*dns.SOA); ok {
			return time.Duration(min(soa.Minttl, soa.Hdr.Ttl)) * time.Second
		}
	}
	return -1
}

func (p *portion) shard(seed maphash.Seed, q message.Question) *shard {
	return &p.shards[maphash.Comparable(seed, q)%shards]
}

func (s *shard) get(q message.Question) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[q]
}

func (s *shard) drop(q message.Question) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.entries[q]
	delete(s.entries, q)
	return ok
}

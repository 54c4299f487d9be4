// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

func record(t *testing.T, s string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(s)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

func configured(change func(*corefile.Cache)) corefile.Cache {
	servers, err := corefile.Parse(". {\n cache 30\n}")
	if err != nil {
		panic(err)
	}
	c := *servers[0].Cache
	if change != nil {
		change(&c)
	}
	return c
}

var question = message.Question{Name: "x.", Type: dns.TypeA}

func TestCache(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corefile.Cache)
		reply  message.Reply
		after  time.Duration
		state  State
		ttl    uint32
	}{
		{name: "within its time", reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}}, after: 9 * time.Second, state: Fresh, ttl: 1},
		{name: "after its time", reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}}, after: 10 * time.Second},
		{name: "not for longer than the bound", reply: message.Reply{Answer: []dns.RR{record(t, "x. 9999 IN A 1.2.3.4")}}, after: 30 * time.Second},
		{name: "for at least five seconds", reply: message.Reply{Answer: []dns.RR{record(t, "x. 0 IN A 1.2.3.4")}}, after: 4 * time.Second, state: Fresh, ttl: 1},
		{name: "denial", reply: message.Reply{Rcode: dns.RcodeNameError, Authority: []dns.RR{record(t, "x. 20 IN SOA a. b. 1 2 3 4 15")}}, after: 14 * time.Second, state: Fresh, ttl: 1},
		{name: "denial after its time", reply: message.Reply{Rcode: dns.RcodeNameError, Authority: []dns.RR{record(t, "x. 20 IN SOA a. b. 1 2 3 4 15")}}, after: 15 * time.Second},
		{name: "an alias to nothing", reply: message.Reply{Answer: []dns.RR{record(t, "x. 9 IN CNAME y.")}, Authority: []dns.RR{record(t, "y. 20 IN SOA a. b. 1 2 3 4 15")}},
			after: 14 * time.Second, state: Fresh, ttl: 1},
		{name: "nothing, and no SOA", reply: message.Reply{}, after: 4 * time.Second, state: Fresh},
		{name: "nothing, and no SOA, after five seconds", reply: message.Reply{}, after: 5 * time.Second},
		{name: "a referral", reply: message.Reply{Authority: []dns.RR{record(t, "x. 99 IN NS a.")}}, after: 4 * time.Second, state: Fresh, ttl: 1},
		{name: "an alias to nothing, and no SOA", reply: message.Reply{Answer: []dns.RR{record(t, "x. 9 IN CNAME y.")}}},
		{name: "an alias that lives longer", reply: message.Reply{Answer: []dns.RR{record(t, "x. 20 IN CNAME y."), record(t, "y. 10 IN A 1.2.3.4")}}, after: 9 * time.Second, state: Fresh, ttl: 1},
		{name: "a record of less than five seconds", reply: message.Reply{Answer: []dns.RR{record(t, "x. 2 IN A 1.2.3.4")}}, after: time.Second, state: Fresh, ttl: 4},
		{name: "part of a second", reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}}, after: 9500 * time.Millisecond, state: Fresh, ttl: 1},
		{name: "kept TTL, bounded", change: func(c *corefile.Cache) { c.KeepTTL = true }, reply: message.Reply{Answer: []dns.RR{record(t, "x. 9999 IN A 1.2.3.4")}},
			after: 9 * time.Second, state: Fresh, ttl: 30},
		{name: "denial without SOA", reply: message.Reply{Rcode: dns.RcodeNameError}},
		{name: "a failure", reply: message.Failed("forward"), after: 4 * time.Second, state: Fresh},
		{name: "a failure after five seconds", reply: message.Failed("forward"), after: 5 * time.Second},
		{name: "truncated", reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}, Truncated: true}},
		{name: "refused", reply: message.Refused()},
		{name: "disabled", change: func(c *corefile.Cache) { c.Success.Disabled = []string{"x."} }, reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}}},
		{name: "stale", change: func(c *corefile.Cache) { c.Stale = time.Hour }, reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}}, after: time.Hour, state: Stale},
		{name: "too old", change: func(c *corefile.Cache) { c.Stale = time.Hour }, reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}}, after: 2 * time.Hour},
		{name: "kept TTL", change: func(c *corefile.Cache) { c.KeepTTL = true }, reply: message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}}, after: 9 * time.Second, state: Fresh, ttl: 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(time.Now())
			c := New(configured(tt.change), ".", clk, metrics.New())
			c.Put(question, tt.reply)
			clk.SetTime(clk.Now().Add(tt.after))
			got, state, _ := c.Get(question, true)
			if state != tt.state {
				t.Fatalf("state %v", state)
			}
			for _, section := range got.Sections() {
				for _, rr := range section {
					if rr.Header().Ttl != tt.ttl {
						t.Errorf("TTL of %v, want %d", rr, tt.ttl)
					}
				}
			}
			if state != Missing && got.Rcode != tt.reply.Rcode {
				t.Errorf("code %d", got.Rcode)
			}
		})
	}
}

// Who asks first is told the time for which the answer is kept, and not that of the server.
func TestCache_Put(t *testing.T) {
	soa := record(t, "x. 9999 IN SOA a. b. 1 2 3 4 9999")
	tests := []struct {
		name   string
		change func(*corefile.Cache)
		reply  message.Reply
		ttl    uint32
	}{
		{name: "longer than the bound", reply: message.Reply{Answer: []dns.RR{record(t, "x. 9999 IN A 1.2.3.4")}}, ttl: 30},
		{name: "shorter than the bound", reply: message.Reply{Answer: []dns.RR{record(t, "x. 1 IN A 1.2.3.4")}}, ttl: 5},
		{name: "the shortest", reply: message.Reply{Answer: []dns.RR{record(t, "x. 20 IN CNAME y."), record(t, "y. 10 IN A 1.2.3.4")}}, ttl: 10},
		{name: "additional", reply: message.Reply{Answer: []dns.RR{record(t, "x. 20 IN A 1.2.3.4")}, Extra: []dns.RR{record(t, "y. 9999 IN A 1.2.3.4")}}, ttl: 20},
		{name: "denial", reply: message.Reply{Rcode: dns.RcodeNameError, Authority: []dns.RR{soa}}, ttl: 30},
		{name: "not kept", change: func(c *corefile.Cache) { c.Success.Disabled = []string{"x."} }, reply: message.Reply{Answer: []dns.RR{record(t, "x. 9999 IN A 1.2.3.4")}}, ttl: 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.reply.Sections()
			c := New(configured(tt.change), ".", clocktesting.NewFakePassiveClock(time.Now()), metrics.New())
			got := c.Put(question, tt.reply)
			for i, section := range got.Sections() {
				if len(section) != len(before[i]) {
					t.Errorf("records: %v", section)
				}
				for j, rr := range section {
					if rr.Header().Ttl != tt.ttl || before[i][j] == rr {
						t.Errorf("TTL of %v, want %d in a record of its own", rr, tt.ttl)
					}
				}
			}
		})
	}
}

func TestCache_Bounded(t *testing.T) {
	c := New(configured(func(c *corefile.Cache) { c.Success.Capacity = 160 }), ".", clocktesting.NewFakePassiveClock(time.Now()), metrics.New())
	for i := range 5000 {
		name := fmt.Sprintf("x%d.", i)
		c.Put(message.Question{Name: name, Type: dns.TypeA}, message.Reply{Answer: []dns.RR{record(t, name+" 10 IN A 1.2.3.4")}})
	}
	n := 0
	for i := range c.success.shards {
		n += len(c.success.shards[i].entries)
	}
	if n == 0 || n > 160 {
		t.Errorf("%d entries", n)
	}
}

// One of those who find an old answer has it anew; the others are not told to.
func TestCache_OneRefreshes(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	c := New(configured(func(c *corefile.Cache) { c.Stale = time.Hour }), ".", clk, metrics.New())
	c.Put(question, message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}})
	clk.SetTime(clk.Now().Add(time.Minute))
	var told []bool
	for range 3 {
		_, _, refresh := c.Get(question, true)
		told = append(told, refresh)
	}
	c.Forgo(question)
	_, _, again := c.Get(question, true)
	if !told[0] || told[1] || told[2] || !again {
		t.Errorf("told %v, after it failed %v", told, again)
	}
}

// A server that fails once does not keep an old answer from being had anew: the next who asks does so.
func TestCache_RefreshesAfterFailure(t *testing.T) {
	for _, servFail := range []time.Duration{0, 5 * time.Second} {
		clk := clocktesting.NewFakePassiveClock(time.Now())
		c := New(configured(func(c *corefile.Cache) { c.Stale, c.ServFail = time.Hour, servFail }), ".", clk, metrics.New())
		c.Put(question, message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}})
		clk.SetTime(clk.Now().Add(time.Minute))
		if _, state, refresh := c.Get(question, true); state != Stale || !refresh {
			t.Fatalf("state %v, refresh %t", state, refresh)
		}
		c.Put(question, message.Failed("forward"))
		clk.SetTime(clk.Now().Add(time.Minute))
		if _, state, refresh := c.Get(question, true); state != Stale || !refresh {
			t.Errorf("failures kept for %v: after one state %v, refresh %t", servFail, state, refresh)
		}
	}
}

// Who comes without wanting to wait, and again to wait, is counted once.
func TestCache_Counts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*corefile.Cache)
		empty  bool
		after  time.Duration
		want   []string // but for those that are 0
	}{
		{name: "missing", empty: true, want: []string{"misses_total 1", "requests_total 1"}},
		{name: "fresh", want: []string{"hits_total 1", "requests_total 1"}},
		{name: "gone", after: time.Minute, want: []string{"misses_total 1", "requests_total 1"}},
		{name: "stale", change: func(c *corefile.Cache) { c.Stale = time.Hour }, after: time.Minute, want: []string{"hits_total 1", "requests_total 1", "served_stale_total 1"}},
		{name: "stale, but verified", change: func(c *corefile.Cache) { c.Stale, c.StaleVerify = time.Hour, true }, after: time.Minute,
			want: []string{"hits_total 1", "requests_total 1", "served_stale_total 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clk, m := clocktesting.NewFakePassiveClock(time.Now()), metrics.New()
			c := New(configured(tt.change), ".", clk, m)
			if !tt.empty {
				c.Put(question, message.Reply{Answer: []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}})
			}
			clk.SetTime(clk.Now().Add(tt.after))
			if _, state, _ := c.Get(question, false); state == Missing || state == Stale && c.Verify() != 0 {
				c.Get(question, true)
			}
			if diff := cmp.Diff(tt.want, counted(m)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// counted are the counters of a cache that are not 0, without their labels.
func counted(m *metrics.Set) []string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var all []string
	for line := range strings.Lines(w.Body.String()) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), "} ")
		name, _, _ = strings.Cut(name, "{")
		if name, is := strings.CutPrefix(name, "coredns_cache_"); is && strings.HasSuffix(name, "_total") && count != "0" {
			all = append(all, name+" "+count)
		}
	}
	return all
}

func TestCache_Prefetch(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	c := New(configured(func(c *corefile.Cache) { c.Prefetch = 2 }), ".", clk, metrics.New())
	c.Put(question, message.Reply{Answer: []dns.RR{record(t, "x. 20 IN A 1.2.3.4")}})
	get := func(after time.Duration) bool {
		clk.SetTime(clk.Now().Add(after))
		_, _, refresh := c.Get(question, true)
		return refresh
	}
	for range 2 {
		if get(0) {
			t.Error("at its beginning")
		}
	}
	if !get(18 * time.Second) {
		t.Error("not when a tenth of its time is left")
	}
	if get(0) {
		t.Error("twice")
	}
}

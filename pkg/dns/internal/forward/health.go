// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// checkTimeout is what a server may take to answer a check.
const checkTimeout = time.Second

// upstream is a server and what is known of its health. One that is not asked is not checked either.
type upstream struct {
	addr string
	// fails are the attempts and checks that failed since the last success of a check.
	fails    atomic.Int32
	checking atomic.Bool
}

func (u *upstream) down(maxFails int) bool { return maxFails > 0 && int(u.fails.Load()) >= maxFails }

// suspect has a server checked until it is well again.
func (f *Forwarder) suspect(u *upstream) {
	u.fails.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.config.MaxFails == 0 || !u.checking.CompareAndSwap(false, true) {
		return
	}
	f.wg.Go(func() {
		defer u.checking.Store(false)
		for f.known(u) {
			if f.check(u) {
				u.fails.Store(0)
				return
			}
			u.fails.Add(1)
			f.env.Metrics.ProxyUnhealthy.WithLabelValues(Plugin, u.addr).Inc()
			select {
			case <-time.After(f.config.HealthCheck):
			case <-f.ctx.Done():
				return
			}
		}
	})
}

// known tells whether a server is still one to ask.
func (f *Forwarder) known(u *upstream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && f.upstreams[u.addr] == u
}

// check asks for the name servers of the root, or of what the configuration says. Any answer will do.
func (f *Forwarder) check(u *upstream) bool {
	query := new(dns.Msg).SetQuestion(f.config.HealthName, dns.TypeNS)
	query.RecursionDesired = !f.config.HealthNoRecursion
	c := &dns.Client{Timeout: checkTimeout}
	if f.config.ForceTCP {
		c.Net = "tcp"
	}
	m, _, err := c.ExchangeContext(f.ctx, query, u.addr)
	return err == nil && m.Response
}

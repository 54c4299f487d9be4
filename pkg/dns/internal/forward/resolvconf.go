// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"k8s.io/utils/clock"
)

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

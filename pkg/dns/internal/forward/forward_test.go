// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	clocktesting "k8s.io/utils/clock/testing"
)

// upstream answers every question by f on a loopback port, and counts them.
func upstream(t *testing.T, f func(network string, m *dns.Msg)) (addr string, count *atomic.Int32) {
	t.Helper()
	count = new(atomic.Int32)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		count.Add(1)
		m := new(dns.Msg).SetReply(r)
		f(w.RemoteAddr().Network(), m)
		_ = w.WriteMsg(m)
	})
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: ln, Handler: handler}} {
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		go func() { _ = srv.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = srv.Shutdown() })
	}
	return pc.LocalAddr().String(), count
}

func record(t *testing.T, s string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(s)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

func question(name string) *dns.Msg { return new(dns.Msg).SetQuestion(name, dns.TypeA) }

func fixed(servers ...string) func() []string { return func() []string { return servers } }

func TestForwarder_Cache(t *testing.T) {
	tests := []struct {
		name   string
		answer func(m *dns.Msg)
		after  time.Duration
		asked  int32
	}{
		{"within the TTL", func(m *dns.Msg) { m.Answer = []dns.RR{record(t, "x. 10 IN A 1.2.3.4")} }, 9 * time.Second, 1},
		{"after the TTL", func(m *dns.Msg) { m.Answer = []dns.RR{record(t, "x. 10 IN A 1.2.3.4")} }, 10 * time.Second, 2},
		{"never longer than 30s", func(m *dns.Msg) { m.Answer = []dns.RR{record(t, "x. 9999 IN A 1.2.3.4")} }, 31 * time.Second, 2},
		{"negative", func(m *dns.Msg) {
			m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{record(t, "x. 20 IN SOA a. b. 1 2 3 4 20")}
		}, 19 * time.Second, 1},
		{"negative without SOA", func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr, count := upstream(t, func(_ string, m *dns.Msg) { tt.answer(m) })
			clk := clocktesting.NewFakePassiveClock(time.Now())
			f := New(fixed(addr), clk)
			if _, err := f.Ask(t.Context(), question("x.")); err != nil {
				t.Fatal(err)
			}
			clk.SetTime(clk.Now().Add(tt.after))
			m, err := f.Ask(t.Context(), question("X."))
			if err != nil {
				t.Fatal(err)
			}
			if got := count.Load(); got != tt.asked {
				t.Errorf("asked %d times", got)
			}
			if tt.asked == 1 && len(m.Answer) > 0 && m.Answer[0].Header().Ttl != 1 {
				t.Errorf("TTL did not count down: %v", m.Answer[0])
			}
		})
	}
}

func TestForwarder_NextServerAndTCP(t *testing.T) {
	bad, _ := upstream(t, func(_ string, m *dns.Msg) { m.Rcode = dns.RcodeServerFailure })
	good, _ := upstream(t, func(network string, m *dns.Msg) {
		m.Truncated = network == "udp"
		if network == "tcp" {
			m.Answer = []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}
		}
	})
	m, err := New(fixed(bad, good), clocktesting.NewFakePassiveClock(time.Now())).Ask(t.Context(), question("x."))
	if err != nil || len(m.Answer) != 1 {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestForwarder_Errors(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	if _, err := New(fixed(), clk).Ask(t.Context(), question("x.")); !errors.Is(err, ErrNoUpstream) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	if _, err := New(fixed(pc.LocalAddr().String()), clk).Ask(ctx, question("x.")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := func(a netip.AddrPort) bool { return a.Addr() == netip.MustParseAddr("10.96.0.10") }
	clk := clocktesting.NewFakePassiveClock(time.Now())
	servers := ResolvConf(path, own, clk, func(err error) { t.Log(err) })
	if got := servers(); got != nil {
		t.Errorf("without a file: %v", got)
	}
	write("nameserver 10.96.0.10\nnameserver 192.0.2.1\nnameserver fd00::1\n")
	clk.SetTime(clk.Now().Add(6 * time.Second))
	if diff := cmp.Diff([]string{"192.0.2.1:53", "[fd00::1]:53"}, servers()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	write("nameserver 192.0.2.2\n")
	clk.SetTime(clk.Now().Add(6 * time.Second))
	if diff := cmp.Diff([]string{"192.0.2.2:53"}, servers()); diff != "" {
		t.Errorf("after a change (-want +got):\n%s", diff)
	}
}

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
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

// answering answers every question by f on a loopback port, and counts them.
func answering(t *testing.T, f func(network string, m *dns.Msg)) (addr string, count *atomic.Int32) {
	t.Helper()
	count = new(atomic.Int32)
	return serving(t, func(w dns.ResponseWriter, r *dns.Msg) {
		count.Add(1)
		m := new(dns.Msg).SetReply(r)
		f(w.RemoteAddr().Network(), m)
		_ = w.WriteMsg(m)
	}), count
}

// serving has a handler answer on a loopback port.
func serving(t *testing.T, handler dns.HandlerFunc) (addr string) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", pc.LocalAddr().String())
	for errors.Is(err, syscall.EADDRINUSE) { // somebody has the port for TCP
		_ = pc.Close()
		if pc, err = net.ListenPacket("udp", "127.0.0.1:0"); err == nil {
			ln, err = net.Listen("tcp", pc.LocalAddr().String())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: ln, Handler: handler}} {
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		go func() { _ = srv.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = srv.Shutdown() })
	}
	return pc.LocalAddr().String()
}

func record(t *testing.T, s string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(s)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

var question = message.Question{Name: "x.", Type: dns.TypeA}

// to returns a forward to servers, with checks in quick succession.
func to(t *testing.T, change func(*corefile.Forward), servers ...string) *Forwarder {
	t.Helper()
	config := corefile.Forward{
		From: ".", To: servers, Policy: "sequential", MaxFails: 2, HealthCheck: 5 * time.Millisecond, HealthName: ".",
		Failover: []int{dns.RcodeServerFailure},
	}
	if change != nil {
		change(&config)
	}
	f := New(config, Env{
		ResolvConf: func(path string) string { return path }, Own: func(netip.AddrPort) bool { return false }, Clock: clock.RealClock{}, Metrics: metrics.New(),
	})
	t.Cleanup(f.Close)
	return f
}

func answers(t *testing.T) func(string, *dns.Msg) {
	t.Helper()
	return func(_ string, m *dns.Msg) { m.Answer = []dns.RR{record(t, "x. 10 IN A 1.2.3.4")} }
}

// silent takes questions and never answers.
func silent(t *testing.T) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	return pc.LocalAddr().String()
}

func TestForwarder_NextServerAndTCP(t *testing.T) {
	bad, _ := answering(t, func(_ string, m *dns.Msg) { m.Rcode = dns.RcodeServerFailure })
	good, _ := answering(t, func(network string, m *dns.Msg) {
		m.Truncated = network == "udp"
		if network == "tcp" {
			m.Answer = []dns.RR{record(t, "x. 10 IN A 1.2.3.4")}
		}
	})
	r, err := to(t, nil, bad, good).Ask(t.Context(), question)
	if err != nil || len(r.Answer) != 1 {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := to(t, nil, bad).Ask(t.Context(), question); err != nil || r.Rcode != dns.RcodeServerFailure {
		t.Errorf("a failure that was told: %v, %v", r, err)
	}
}

// What a server tells by UDP that does not answer by TCP is told on, marked as a part.
func TestForwarder_WithoutTCP(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	srv := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Truncated = true
		answers(t)("udp", m)
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = srv.Shutdown() })
	r, err := to(t, nil, pc.LocalAddr().String()).Ask(t.Context(), question)
	if err != nil || len(r.Answer) != 1 || !r.Truncated {
		t.Errorf("got %v, %v", r, err)
	}
}

// A server that does not know EDNS is asked without, as the client might have done, and is not taken for one that is down.
func TestForwarder_WithoutEDNS(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rcode  int
		header bool // nothing else is answered
		always bool // whatever is asked
	}{
		{name: "FORMERR", rcode: dns.RcodeFormatError},
		{name: "FORMERR without the question", rcode: dns.RcodeFormatError, header: true},
		{name: "NOTIMP", rcode: dns.RcodeNotImplemented},
		{name: "it understands nothing", rcode: dns.RcodeFormatError, header: true, always: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := to(t, nil, serving(t, func(w dns.ResponseWriter, r *dns.Msg) {
				m := new(dns.Msg).SetReply(r)
				if r.IsEdns0() == nil && !r.AuthenticatedData && !tt.always {
					answers(t)("udp", m)
				} else if m.Rcode = tt.rcode; tt.header {
					m.Question = nil
				}
				_ = w.WriteMsg(m)
			}))
			for range 3 {
				r, err := f.Ask(t.Context(), question)
				if tt.always && (err != nil || r.Rcode != tt.rcode) || !tt.always && (err != nil || len(r.Answer) != 1) {
					t.Errorf("got %v, %v", r, err)
				}
			}
		})
	}
}

func TestForwarder_LyingServer(t *testing.T) {
	tests := []struct {
		name string
		lie  func(m *dns.Msg)
	}{
		{"another name", func(m *dns.Msg) { m.Question[0].Name = "y." }},
		{"another type", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }},
		{"no question", func(m *dns.Msg) { m.Question = nil }},
		{"a question", func(m *dns.Msg) { m.Response = false }},
	}
	good, _ := answering(t, answers(t))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad, _ := answering(t, func(_ string, m *dns.Msg) {
				m.Answer = []dns.RR{record(t, "x. 10 IN A 6.6.6.6")}
				tt.lie(m)
			})
			r, err := to(t, nil, bad, good).Ask(t.Context(), question)
			if err != nil || len(r.Answer) != 1 || r.Answer[0].(*dns.A).A.String() != "1.2.3.4" {
				t.Errorf("got %v, %v", r, err)
			}
		})
	}
}

// A server that hangs is not asked any more until it answers a check.
func TestForwarder_DeadServer(t *testing.T) {
	dead := silent(t)
	good, count := answering(t, answers(t))
	f := to(t, nil, dead, good)
	if _, err := f.Ask(t.Context(), question); err != nil {
		t.Fatal(err)
	}
	u := f.upstreams[dead]
	eventually(t, "the server counts as down", func() bool { return u.down(2) })
	started := time.Now()
	for range 50 {
		if _, err := f.Ask(t.Context(), question); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(started); took > attemptTimeout || count.Load() != 51 {
		t.Errorf("50 questions took %v, the server that is well had %d", took, count.Load())
	}
}

func TestForwarder_AllDown(t *testing.T) {
	f := to(t, func(c *corefile.Forward) { c.FailFast = true }, silent(t))
	f.order()[0].fails.Store(2)
	started := time.Now()
	if _, err := f.Ask(t.Context(), question); err == nil || time.Since(started) > attemptTimeout {
		t.Errorf("after %v: %v", time.Since(started), err)
	}
}

// Equal questions are one for the server, and take one slot.
func TestForwarder_Slots(t *testing.T) {
	release := make(chan struct{})
	addr, count := answering(t, func(_ string, m *dns.Msg) {
		<-release
		m.Answer = []dns.RR{record(t, m.Question[0].Name+" 10 IN A 1.2.3.4")}
	})
	f := to(t, func(c *corefile.Forward) { c.MaxConcurrent = 1 }, addr)
	done := make(chan error, 20)
	for range cap(done) {
		go func() {
			_, err := f.Ask(t.Context(), question)
			done <- err
		}()
	}
	eventually(t, "the server is asked", func() bool { return count.Load() == 1 })
	if _, err := f.Ask(t.Context(), message.Question{Name: "other.", Type: dns.TypeA}); !errors.Is(err, ErrBusy) {
		t.Errorf("another question: %v", err)
	}
	close(release)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if count.Load() > 2 {
		t.Errorf("the server was asked %d times", count.Load())
	}
}

func TestForwarder_Policy(t *testing.T) {
	order := func(policy string) []string {
		var list []string
		f := to(t, func(c *corefile.Forward) { c.Policy = policy }, "192.0.2.1:53", "192.0.2.2:53")
		for range 4 {
			list = append(list, f.order()[0].addr)
		}
		return list
	}
	const a, b = "192.0.2.1:53", "192.0.2.2:53"
	if diff := cmp.Diff([]string{a, a, a, a}, order("sequential")); diff != "" {
		t.Errorf("sequential (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{a, b, a, b}, order("round_robin")); diff != "" {
		t.Errorf("round_robin (-want +got):\n%s", diff)
	}
}

func TestForwarder_Concerns(t *testing.T) {
	f := to(t, func(c *corefile.Forward) { c.From, c.Except = "org.", []string{"example.org."} }, "192.0.2.1:53")
	for name, want := range map[string]bool{"a.org.": true, "org.": true, "a.com.": false, "example.org.": false, "a.example.org.": false, "myexample.org.": true} {
		if f.Concerns(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestForwarder_Errors(t *testing.T) {
	if _, err := to(t, nil).Ask(t.Context(), question); !errors.Is(err, ErrNoUpstream) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := to(t, nil, silent(t)).Ask(ctx, question); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return cond(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
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

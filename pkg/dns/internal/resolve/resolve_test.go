// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/forward"
	"minik8s.io/minik8s/pkg/dns/internal/index"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

func table(t *testing.T, text string) *Table {
	t.Helper()
	return tableAt(t, text, clock.RealClock{})
}

func tableAt(t *testing.T, text string, clk clock.PassiveClock) *Table {
	t.Helper()
	servers, err := corefile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New()
	meta := metav1.ObjectMeta{Namespace: "a", Name: "db"}
	db := index.NewService(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "None"}}, []*discoveryv1.EndpointSlice{{
		Ports:     []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.1"}, Hostname: new("db-0")}},
	}})
	x := index.Empty(1).With(index.Changes{
		Services: map[index.Key]*index.Service{db.Key: db},
		Hosts:    map[string]index.Host{"shop.test.": {Namespace: "a", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}},
	})
	var background sync.WaitGroup
	table := New(servers, Env{
		Index: func() *index.Index { return x }, NameServers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Clock: clk, Metrics: m,
		Background: func(f func(context.Context)) { background.Go(func() { f(context.WithoutCancel(t.Context())) }) },
		Forward:    forward.Env{ResolvConf: func(string) string { return "none" }, Own: func(netip.AddrPort) bool { return false }, Clock: clk, Metrics: m},
	})
	t.Cleanup(func() {
		background.Wait()
		table.Close()
	})
	return table
}

func TestTable_Find(t *testing.T) {
	x := table(t, ". {\n}\nexample.org {\n}\na.example.org {\n}\n")
	for name, want := range map[string]string{
		".": ".", "com.": ".", "example.org.": "example.org.", "b.example.org.": "example.org.", "c.a.example.org.": "a.example.org.", "myexample.org.": ".",
	} {
		if got := x.Find(name); got == nil || got.Zone != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := table(t, "example.org {\n}\n").Find("com."); got != nil {
		t.Errorf("without a block: %v", got.Zone)
	}
}

func TestBlock_Resolve(t *testing.T) {
	tests := []struct {
		name, text, qname string
		qtype             uint16
		rcode             int
		want, extra       []string
		authority         []string // unless nil
		waits             bool
	}{
		{name: "hosts", text: "hosts {\n192.0.2.1 a.org\n}", qname: "a.org.", qtype: dns.TypeA, want: []string{"a.org. 3600 IN A 192.0.2.1"}},
		{name: "hosts, another family", text: "hosts {\n192.0.2.1 a.org\n}", qname: "a.org.", qtype: dns.TypeAAAA},
		{name: "hosts, reverse", text: "hosts {\n192.0.2.1 a.org\n}", qname: "1.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, want: []string{"1.2.0.192.in-addr.arpa. 3600 IN PTR a.org."}},
		{name: "hosts, unknown", text: "hosts {\n192.0.2.1 a.org\n}", qname: "b.org.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure},
		{name: "hosts, next plugin", text: "hosts {\n192.0.2.1 a.org\nfallthrough\n}\nforward . 192.0.2.53", qname: "b.org.", qtype: dns.TypeA, waits: true},
		{name: "hosts, unknown address", text: "hosts {\n192.0.2.1 a.org\nfallthrough a.org\n}\nforward . 192.0.2.53", qname: "2.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, waits: true},
		{name: "hosts, wildcard", text: "hosts {\n192.0.2.1 *.a.org\n}", qname: "b.a.org.", qtype: dns.TypeA, want: []string{"b.a.org. 3600 IN A 192.0.2.1"}},
		{name: "hosts, wildcard, another family", text: "hosts {\n192.0.2.1 *.a.org\n}", qname: "b.a.org.", qtype: dns.TypeAAAA},
		{name: "hosts, before the wildcard", text: "hosts {\n192.0.2.1 *.a.org\n192.0.2.2 b.a.org\n}", qname: "b.a.org.", qtype: dns.TypeA, want: []string{"b.a.org. 3600 IN A 192.0.2.2"}},
		{name: "hosts, wildcard of a family", text: "hosts {\nfd00::1 *.a.org\n192.0.2.2 b.a.org\n}", qname: "b.a.org.", qtype: dns.TypeAAAA, want: []string{"b.a.org. 3600 IN AAAA fd00::1"}},
		{name: "hosts, above the wildcard", text: "hosts {\n192.0.2.1 *.a.org\n}", qname: "a.org.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure},
		{name: "hosts, two labels", text: "hosts {\n192.0.2.1 *.a.org\n}", qname: "c.b.a.org.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure},
		{name: "hosts, reverse of a wildcard", text: "hosts {\n192.0.2.1 *.a.org\n}", qname: "1.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeRefused},
		{name: "nobody is responsible", text: "errors", qname: "b.org.", qtype: dns.TypeA, rcode: dns.RcodeRefused},
		{name: "exact name", text: "rewrite name a.org ns.dns.cluster.local\nkubernetes cluster.local", qname: "a.org.", qtype: dns.TypeA,
			want: []string{"a.org. 5 IN A 10.96.0.10"}},
		{name: "exact name, SRV", text: "rewrite name a.org db.a.svc.cluster.local\nkubernetes cluster.local", qname: "a.org.", qtype: dns.TypeSRV,
			want: []string{"a.org. 5 IN SRV 0 100 80 db-0.a.org."}, extra: []string{"db-0.a.org. 5 IN A 10.244.0.1"}},
		{name: "suffix, SRV", text: "rewrite name suffix .x.org .svc.cluster.local answer auto\nkubernetes cluster.local", qname: "_http._tcp.db.a.x.org.", qtype: dns.TypeSRV,
			want: []string{"_http._tcp.db.a.x.org. 5 IN SRV 0 100 80 db-0.db.a.x.org."}, extra: []string{"db-0.db.a.x.org. 5 IN A 10.244.0.1"}},
		{name: "value only", text: "rewrite name regex (.*)\\.x\\.org {1}.svc.cluster.local answer value (.*)\\.svc\\.cluster\\.local {1}.y.org\nkubernetes cluster.local", qname: "db.a.x.org.", qtype: dns.TypeSRV,
			want: []string{"db.a.svc.cluster.local. 5 IN SRV 0 100 80 db-0.db.a.y.org."}, extra: []string{"db-0.db.a.svc.cluster.local. 5 IN A 10.244.0.1"}},
		{name: "two rules, undone in reverse", text: "rewrite continue name exact a.org b.org answer name c\\.org never.org\nrewrite name b.org ns.dns.cluster.local answer name ns\\.dns\\.cluster\\.local c.org\n" +
			"kubernetes cluster.local", qname: "a.org.", qtype: dns.TypeA, want: []string{"never.org. 5 IN A 10.96.0.10"}},
		{name: "the authority", text: "rewrite name suffix .org .local answer auto\nkubernetes cluster.local", qname: "cluster.org.", qtype: dns.TypeA,
			authority: []string{"cluster.org. 5 IN SOA ns.dns.cluster.org. hostmaster.cluster.local. 2 7200 1800 86400 5"}},
		{name: "prefix of a label", text: "rewrite name prefix n ns.dns\nkubernetes cluster.local", qname: "nx.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "prefix", text: "rewrite name prefix n ns.dns\nkubernetes cluster.local", qname: "n.cluster.local.", qtype: dns.TypeA, want: []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "substring", text: "rewrite name substring x dns answer auto\nkubernetes cluster.local", qname: "ns.x.cluster.local.", qtype: dns.TypeA, want: []string{"ns.x.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "suffix without answer", text: "rewrite name suffix .x.org .cluster.local\nkubernetes cluster.local", qname: "ns.dns.x.org.", qtype: dns.TypeA,
			want: []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "suffix with answer", text: "rewrite name suffix .x.org .cluster.local answer auto\nkubernetes cluster.local", qname: "ns.dns.x.org.", qtype: dns.TypeA,
			want: []string{"ns.dns.x.org. 5 IN A 10.96.0.10"}},
		{name: "pattern", text: "rewrite stop {\nname regex (.*)\\.x\\.org {1}.cluster.local\nanswer name (.*)\\.cluster\\.local {1}.x.org\n}\nkubernetes cluster.local",
			qname: "ns.dns.x.org.", qtype: dns.TypeA, want: []string{"ns.dns.x.org. 5 IN A 10.96.0.10"}},
		{name: "type", text: "rewrite type AAAA A\nkubernetes cluster.local", qname: "ns.dns.cluster.local.", qtype: dns.TypeAAAA,
			want: []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "name of a Dns object", text: "kubernetes cluster.local\nforward . 192.0.2.53", qname: "shop.test.", qtype: dns.TypeA, want: []string{"shop.test. 5 IN A 192.0.2.7"}},
		{name: "name of a Dns object, another type", text: "kubernetes cluster.local\nforward . 192.0.2.53", qname: "shop.test.", qtype: dns.TypeMX},
		{name: "below the name of a Dns object", text: "kubernetes cluster.local\nforward . 192.0.2.53", qname: "x.shop.test.", qtype: dns.TypeA, waits: true},
		{name: "name of a Dns object, not for the cluster", text: "forward . 192.0.2.53", qname: "shop.test.", qtype: dns.TypeA, waits: true},
		{name: "name of a Dns object, of a hidden namespace", text: "kubernetes cluster.local {\nnamespaces b\n}\nforward . 192.0.2.53", qname: "shop.test.", qtype: dns.TypeA, waits: true},
		{name: "hosts before a Dns object", text: "hosts {\n192.0.2.1 shop.test\n}\nkubernetes cluster.local", qname: "shop.test.", qtype: dns.TypeA, want: []string{"shop.test. 3600 IN A 192.0.2.1"}},
		{name: "the longer zone", text: "kubernetes local cluster.local", qname: "ns.dns.cluster.local.", qtype: dns.TypeA, want: []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "denied", text: "kubernetes cluster.local in-addr.arpa", qname: "1.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError},
		{name: "reverse, next plugin", text: "kubernetes cluster.local in-addr.arpa {\nfallthrough in-addr.arpa\n}\nforward . 192.0.2.53",
			qname: "1.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, waits: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := table(t, ". {\n"+tt.text+"\n}\n").Find(tt.qname)
			r, err := b.Resolve(t.Context(), message.Question{Name: tt.qname, Type: tt.qtype}, false)
			if errors.Is(err, message.ErrWait) != tt.waits || r.Rcode != tt.rcode {
				t.Fatalf("%s, %v", dns.RcodeToString[r.Rcode], err)
			}
			if diff := cmp.Diff(tt.want, texts(r.Answer)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.extra, texts(r.Extra)); diff != "" {
				t.Errorf("additional (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.authority, texts(r.Authority)); diff != "" && tt.authority != nil {
				t.Errorf("authority (-want +got):\n%s", diff)
			}
		})
	}
}

func texts(rrs []dns.RR) []string {
	var out []string
	for _, rr := range rrs {
		out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return out
}

// A rule that makes something that is no name is a failure.
func TestBlock_Resolve_NoName(t *testing.T) {
	b := table(t, ". {\nrewrite name regex (.*)\\.x {1}..y\nkubernetes cluster.local\n}\n").Find("a.x.")
	if r, err := b.Resolve(t.Context(), message.Question{Name: "a.x.", Type: dns.TypeA}, true); err == nil {
		t.Errorf("got %v", r)
	}
}

// upstream answers each question by what a function makes of a reply.
func upstream(t *testing.T, answer func(*dns.Msg)) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	srv := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		answer(m)
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = srv.Shutdown() })
	return pc.LocalAddr().String()
}

func address(name, addr string) []dns.RR {
	return []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 86400}, A: net.ParseIP(addr)}}
}

// What comes after the time for which a stale answer is held back is kept, or a slow server's answers would never be seen.
func TestBlock_Resolve_VerifiesLate(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	addr, let := atomic.Pointer[string]{}, make(chan struct{})
	addr.Store(new("192.0.2.1"))
	server := upstream(t, func(m *dns.Msg) {
		if *addr.Load() != "192.0.2.1" {
			<-let
		}
		m.Answer = address("a.org.", *addr.Load())
	})
	t.Cleanup(func() { close(let) })
	b := tableAt(t, ". {\nforward . "+server+"\ncache 30 {\nserve_stale 1h verify 1ms\n}\n}\n", clk).Find("a.org.")
	ask := func() []string {
		r, err := b.Resolve(t.Context(), message.Question{Name: "a.org.", Type: dns.TypeA}, true)
		if err != nil {
			t.Fatal(err)
		}
		return texts(r.Answer)
	}
	if diff := cmp.Diff([]string{"a.org. 30 IN A 192.0.2.1"}, ask()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	clk.SetTime(clk.Now().Add(time.Minute))
	addr.Store(new("192.0.2.2"))
	if diff := cmp.Diff([]string{"a.org. 0 IN A 192.0.2.1"}, ask()); diff != "" {
		t.Errorf("while the server is slow (-want +got):\n%s", diff)
	}
	let <- struct{}{} // answers one question, the one that was given up
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		return cmp.Equal([]string{"a.org. 30 IN A 192.0.2.2"}, ask()), nil
	})
	if err != nil {
		t.Errorf("afterwards: %v", ask())
	}
}

// A refusal is no reason to forget what was known.
func TestBlock_Resolve_VerifiesRefused(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	var refuses atomic.Bool
	server := upstream(t, func(m *dns.Msg) {
		if refuses.Load() {
			m.Rcode = dns.RcodeRefused
			return
		}
		m.Answer = address("a.org.", "192.0.2.1")
	})
	b := tableAt(t, ". {\nforward . "+server+"\ncache 30 {\nserve_stale 1h verify\n}\n}\n", clk).Find("a.org.")
	for range 3 {
		r, err := b.Resolve(t.Context(), message.Question{Name: "a.org.", Type: dns.TypeA}, true)
		if err != nil || len(r.Answer) != 1 {
			t.Errorf("got %v, %v", r, err)
		}
		clk.SetTime(clk.Now().Add(time.Minute))
		refuses.Store(true)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/forward"
	"minik8s.io/minik8s/pkg/dns/internal/index"
	"minik8s.io/minik8s/pkg/dns/internal/message"
	"minik8s.io/minik8s/pkg/dns/internal/metrics"
)

func table(t *testing.T, text string) *Table {
	t.Helper()
	servers, err := corefile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New()
	x := index.Empty(1).With(index.Changes{Hosts: map[string]index.Host{"shop.test.": {Namespace: "a", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}}})
	table := New(servers, Env{
		Index: func() *index.Index { return x }, NameServers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Clock: clock.RealClock{}, Metrics: m,
		Background: func(func(context.Context)) {},
		Forward:    forward.Env{ResolvConf: func(string) string { return "none" }, Own: func(netip.AddrPort) bool { return false }, Clock: clock.RealClock{}, Metrics: m},
	})
	t.Cleanup(table.Close)
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
		want              []string
		waits             bool
	}{
		{name: "hosts", text: "hosts {\n192.0.2.1 a.org\n}", qname: "a.org.", qtype: dns.TypeA, want: []string{"a.org. 3600 IN A 192.0.2.1"}},
		{name: "hosts, another family", text: "hosts {\n192.0.2.1 a.org\n}", qname: "a.org.", qtype: dns.TypeAAAA},
		{name: "hosts, reverse", text: "hosts {\n192.0.2.1 a.org\n}", qname: "1.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, want: []string{"1.2.0.192.in-addr.arpa. 3600 IN PTR a.org."}},
		{name: "hosts, unknown", text: "hosts {\n192.0.2.1 a.org\n}", qname: "b.org.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure},
		{name: "hosts, next plugin", text: "hosts {\n192.0.2.1 a.org\nfallthrough\n}\nforward . 192.0.2.53", qname: "b.org.", qtype: dns.TypeA, waits: true},
		{name: "nobody is responsible", text: "errors", qname: "b.org.", qtype: dns.TypeA, rcode: dns.RcodeRefused},
		{name: "exact name", text: "rewrite name a.org ns.dns.cluster.local\nkubernetes cluster.local", qname: "a.org.", qtype: dns.TypeA,
			want: []string{"a.org. 5 IN A 10.96.0.10"}},
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
			var got []string
			for _, rr := range r.Answer {
				got = append(got, strings.ReplaceAll(rr.String(), "\t", " "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

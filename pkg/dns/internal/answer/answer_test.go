// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/index"
	"minik8s.io/minik8s/pkg/dns/internal/message"
)

func service(name string, spec corev1.ServiceSpec) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
}

func slice(family discoveryv1.AddressType, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		AddressType: family,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints:   eps,
	}
}

func endpoint(ip, host string, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if host != "" {
		e.Hostname = &host
	}
	return e
}

func testIndex() *index.Index {
	ports := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
	v4, v6 := discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	list := []*index.Service{
		index.NewService(service("web", corev1.ServiceSpec{ClusterIP: "10.96.0.5", ClusterIPs: []string{"10.96.0.5", "fd00::5"}, Ports: ports}),
			[]*discoveryv1.EndpointSlice{slice(v4, endpoint("10.244.0.7", "", true))}),
		index.NewService(service("db", corev1.ServiceSpec{ClusterIP: "None", Ports: ports[:1]}), []*discoveryv1.EndpointSlice{
			slice(v4, endpoint("10.244.0.1", "DB-0", true), endpoint("10.244.0.2", "", true), endpoint("10.244.0.3", "db-3", false)),
			slice(v6, endpoint("fd01::1", "db-0", true)),
		}),
		index.NewService(service("six", corev1.ServiceSpec{ClusterIP: "None"}), []*discoveryv1.EndpointSlice{slice(v6, endpoint("fd02::", "", true))}),
		index.NewService(service("early", corev1.ServiceSpec{ClusterIP: "None", PublishNotReadyAddresses: true}),
			[]*discoveryv1.EndpointSlice{slice(v4, endpoint("10.244.0.9", "e-0", false))}),
		index.NewService(service("empty", corev1.ServiceSpec{ClusterIP: "10.96.0.9", Ports: ports}), nil),
		index.NewService(service("none", corev1.ServiceSpec{ClusterIP: "None", Ports: ports}), nil),
		index.NewService(service("out", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"}), nil),
		index.NewService(service("in", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web.ns.svc.cluster.local"}), nil),
		index.NewService(service("loop", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "loop.ns.svc.cluster.local"}), nil),
	}
	c := index.Changes{Services: map[index.Key]*index.Service{}, Namespaces: map[string]bool{"ns": true},
		Pods: map[index.PodKey]bool{{Namespace: "ns", Addr: netip.MustParseAddr("10.244.0.1")}: true}}
	for _, s := range list {
		c.Services[s.Key] = s
	}
	return index.Empty(6).With(c)
}

func testZone() Zone {
	return Zone{
		Domain: "cluster.local.", Reverse: []string{"in-addr.arpa.", "168.192.in-addr.arpa.", "ip6.arpa."}, TTL: 5,
		NameServers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Pods: corefile.PodsInsecure,
	}
}

func texts(rrs []dns.RR) []string {
	var out []string
	for _, rr := range rrs {
		out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return out
}

func TestZone_For(t *testing.T) {
	const soa = "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 5"
	tests := []struct {
		name, qname string
		qtype       uint16
		rcode       int
		want        []string // answer
		extra       []string
		target      string
		foreign     bool
		soa         string // of a negative answer; default that of the zone
	}{
		{name: "cluster IP", qname: "web.ns.svc.cluster.local.", qtype: dns.TypeA, want: []string{"web.ns.svc.cluster.local. 5 IN A 10.96.0.5"}},
		{name: "cluster IP, IPv6", qname: "web.ns.svc.cluster.local.", qtype: dns.TypeAAAA, want: []string{"web.ns.svc.cluster.local. 5 IN AAAA fd00::5"}},
		{name: "no such type", qname: "web.ns.svc.cluster.local.", qtype: dns.TypeMX},
		{name: "no such service", qname: "nope.ns.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "no such namespace", qname: "web.nope.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "namespace", qname: "ns.svc.cluster.local.", qtype: dns.TypeA},
		{name: "unknown namespace", qname: "nope.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "svc", qname: "svc.cluster.local.", qtype: dns.TypeA},
		{name: "nothing", qname: "nope.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "search path leftover", qname: "www.example.com.ns.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "outside", qname: "www.example.com.", qtype: dns.TypeA, foreign: true},
		{name: "outside with the zone as suffix of a label", qname: "evilcluster.local.", qtype: dns.TypeA, foreign: true},
		{name: "SRV", qname: "_http._tcp.web.ns.svc.cluster.local.", qtype: dns.TypeSRV,
			want:  []string{"_http._tcp.web.ns.svc.cluster.local. 5 IN SRV 0 100 80 web.ns.svc.cluster.local."},
			extra: []string{"web.ns.svc.cluster.local. 5 IN A 10.96.0.5", "web.ns.svc.cluster.local. 5 IN AAAA fd00::5"}},
		{name: "SRV of another protocol", qname: "_http._udp.web.ns.svc.cluster.local.", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
		{name: "SRV of all ports", qname: "web.ns.svc.cluster.local.", qtype: dns.TypeSRV,
			want: []string{"web.ns.svc.cluster.local. 5 IN SRV 0 50 80 web.ns.svc.cluster.local.",
				"web.ns.svc.cluster.local. 5 IN SRV 0 50 53 web.ns.svc.cluster.local."},
			extra: []string{"web.ns.svc.cluster.local. 5 IN A 10.96.0.5", "web.ns.svc.cluster.local. 5 IN AAAA fd00::5"}},
		{name: "headless", qname: "db.ns.svc.cluster.local.", qtype: dns.TypeA,
			want: []string{"db.ns.svc.cluster.local. 5 IN A 10.244.0.1", "db.ns.svc.cluster.local. 5 IN A 10.244.0.2"}},
		{name: "headless SRV", qname: "_http._tcp.db.ns.svc.cluster.local.", qtype: dns.TypeSRV,
			want: []string{"_http._tcp.db.ns.svc.cluster.local. 5 IN SRV 0 50 8080 db-0.db.ns.svc.cluster.local.",
				"_http._tcp.db.ns.svc.cluster.local. 5 IN SRV 0 50 8080 10-244-0-2.db.ns.svc.cluster.local."},
			extra: []string{"db-0.db.ns.svc.cluster.local. 5 IN A 10.244.0.1", "db-0.db.ns.svc.cluster.local. 5 IN AAAA fd01::1",
				"10-244-0-2.db.ns.svc.cluster.local. 5 IN A 10.244.0.2"}},
		{name: "endpoint hostname", qname: "db-0.db.ns.svc.cluster.local.", qtype: dns.TypeA, want: []string{"db-0.db.ns.svc.cluster.local. 5 IN A 10.244.0.1"}},
		{name: "endpoint by address", qname: "10-244-0-2.db.ns.svc.cluster.local.", qtype: dns.TypeA,
			want: []string{"10-244-0-2.db.ns.svc.cluster.local. 5 IN A 10.244.0.2"}},
		{name: "endpoint that is not ready", qname: "db-3.db.ns.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "endpoint published unready", qname: "e-0.early.ns.svc.cluster.local.", qtype: dns.TypeA, want: []string{"e-0.early.ns.svc.cluster.local. 5 IN A 10.244.0.9"}},
		{name: "headless without endpoints", qname: "none.ns.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "external name", qname: "out.ns.svc.cluster.local.", qtype: dns.TypeA,
			want: []string{"out.ns.svc.cluster.local. 5 IN CNAME www.example.com."}, target: "www.example.com."},
		{name: "external name, CNAME", qname: "out.ns.svc.cluster.local.", qtype: dns.TypeCNAME,
			want: []string{"out.ns.svc.cluster.local. 5 IN CNAME www.example.com."}},
		{name: "external name of a service", qname: "in.ns.svc.cluster.local.", qtype: dns.TypeA,
			want: []string{"in.ns.svc.cluster.local. 5 IN CNAME web.ns.svc.cluster.local.", "web.ns.svc.cluster.local. 5 IN A 10.96.0.5"}},
		{name: "external name of itself", qname: "loop.ns.svc.cluster.local.", qtype: dns.TypeA},
		{name: "reverse", qname: "5.0.96.10.in-addr.arpa.", qtype: dns.TypePTR, want: []string{"5.0.96.10.in-addr.arpa. 5 IN PTR web.ns.svc.cluster.local."}},
		{name: "reverse, endpoint", qname: "1.0.244.10.in-addr.arpa.", qtype: dns.TypePTR, want: []string{"1.0.244.10.in-addr.arpa. 5 IN PTR db-0.db.ns.svc.cluster.local."}},
		{name: "reverse, IPv6", qname: "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", qtype: dns.TypePTR,
			want: []string{"5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. 5 IN PTR web.ns.svc.cluster.local."}},
		{name: "reverse, behind a cluster IP", qname: "7.0.244.10.in-addr.arpa.", qtype: dns.TypePTR,
			want: []string{"7.0.244.10.in-addr.arpa. 5 IN PTR 10-244-0-7.web.ns.svc.cluster.local."}},
		{name: "reverse, SOA", qname: "in-addr.arpa.", qtype: dns.TypeSOA, want: []string{"in-addr.arpa." + strings.TrimPrefix(soa, "cluster.local.")}},
		{name: "reverse, NS", qname: "in-addr.arpa.", qtype: dns.TypeNS, want: []string{"in-addr.arpa. 5 IN NS ns.dns.cluster.local."},
			extra: []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "reverse, the zone itself", qname: "in-addr.arpa.", qtype: dns.TypePTR, soa: "in-addr.arpa."},
		{name: "reverse, the longer zone", qname: "1.1.168.192.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError, soa: "168.192.in-addr.arpa."},
		{name: "reverse, not ready", qname: "3.0.244.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError, soa: "in-addr.arpa."},
		{name: "reverse, another type", qname: "5.0.96.10.in-addr.arpa.", qtype: dns.TypeA, soa: "in-addr.arpa."},
		{name: "reverse, part of an address", qname: "96.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError, soa: "in-addr.arpa."},
		{name: "reverse, unknown", qname: "8.8.8.8.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError, soa: "in-addr.arpa."},
		{name: "version", qname: "dns-version.cluster.local.", qtype: dns.TypeTXT, want: []string{`dns-version.cluster.local. 28800 IN TXT "1.1.0"`}},
		{name: "SOA", qname: "cluster.local.", qtype: dns.TypeSOA, want: []string{soa}},
		{name: "NS", qname: "cluster.local.", qtype: dns.TypeNS, want: []string{"cluster.local. 5 IN NS ns.dns.cluster.local."},
			extra: []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "apex", qname: "cluster.local.", qtype: dns.TypeA},
		{name: "version, another type", qname: "dns-version.cluster.local.", qtype: dns.TypeA},
		{name: "name server", qname: "ns.dns.cluster.local.", qtype: dns.TypeA, want: []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{name: "headless without endpoints, SRV", qname: "_http._tcp.none.ns.svc.cluster.local.", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
		{name: "headless, IPv6", qname: "db.ns.svc.cluster.local.", qtype: dns.TypeAAAA, want: []string{"db.ns.svc.cluster.local. 5 IN AAAA fd01::1"}},
		{name: "headless, an address that ends in zeros", qname: "fd02--0.six.ns.svc.cluster.local.", qtype: dns.TypeAAAA,
			want: []string{"fd02--0.six.ns.svc.cluster.local. 5 IN AAAA fd02::"}},
		{name: "headless, no IPv6", qname: "early.ns.svc.cluster.local.", qtype: dns.TypeAAAA},
		{name: "headless SRV of all ports", qname: "db-0.db.ns.svc.cluster.local.", qtype: dns.TypeSRV,
			want:  []string{"db-0.db.ns.svc.cluster.local. 5 IN SRV 0 100 8080 db-0.db.ns.svc.cluster.local."},
			extra: []string{"db-0.db.ns.svc.cluster.local. 5 IN A 10.244.0.1", "db-0.db.ns.svc.cluster.local. 5 IN AAAA fd01::1"}},
		{name: "address of a port", qname: "_http._tcp.web.ns.svc.cluster.local.", qtype: dns.TypeA, want: []string{"_http._tcp.web.ns.svc.cluster.local. 5 IN A 10.96.0.5"}},
		{name: "SRV of no port", qname: "_nope._tcp.web.ns.svc.cluster.local.", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
		{name: "SRV of an empty port", qname: "_._tcp.web.ns.svc.cluster.local.", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
		{name: "between port and service", qname: "_tcp.web.ns.svc.cluster.local.", qtype: dns.TypeSRV},
		{name: "between port and headless service", qname: "_tcp.db.ns.svc.cluster.local.", qtype: dns.TypeSRV},
		{name: "protocol without ports", qname: "_sctp.web.ns.svc.cluster.local.", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
		{name: "endpoint behind a cluster IP", qname: "10-244-0-7.web.ns.svc.cluster.local.", qtype: dns.TypeA,
			want: []string{"10-244-0-7.web.ns.svc.cluster.local. 5 IN A 10.244.0.7"}},
		{name: "external name, another type", qname: "out.ns.svc.cluster.local.", qtype: dns.TypeTXT},
		{name: "external name, a port", qname: "_http._tcp.out.ns.svc.cluster.local.", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
		{name: "more labels than any name has", qname: "a.b.c.d.e.f.g.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "pods", qname: "ns.pod.cluster.local.", qtype: dns.TypeA},
		{name: "pod, another type", qname: "1-2-3-4.ns.pod.cluster.local.", qtype: dns.TypeAAAA},
		{name: "pod", qname: "1-2-3-4.ns.pod.cluster.local.", qtype: dns.TypeA, want: []string{"1-2-3-4.ns.pod.cluster.local. 5 IN A 1.2.3.4"}},
		{name: "pod, IPv6", qname: "fd01--1.ns.pod.cluster.local.", qtype: dns.TypeAAAA, want: []string{"fd01--1.ns.pod.cluster.local. 5 IN AAAA fd01::1"}},
		{name: "pod of no namespace", qname: "1-2-3-4.nope.pod.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{name: "pod that is no address", qname: "nope.ns.pod.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError},
	}
	x, zone := testIndex(), testZone()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := zone.For(x, message.Question{Name: tt.qname, Type: tt.qtype})
			if r.Handled == tt.foreign {
				t.Fatalf("Handled is %v", r.Handled)
			}
			if r.Rcode != tt.rcode || r.Target != tt.target {
				t.Errorf("rcode %s, target %q", dns.RcodeToString[r.Rcode], r.Target)
			}
			if diff := cmp.Diff(tt.want, texts(r.Answer)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.extra, texts(r.Extra)); diff != "" {
				t.Errorf("additional (-want +got):\n%s", diff)
			}
			var authority []string
			if r.Handled && len(tt.want) == 0 {
				authority = []string{soa}
				if tt.soa != "" {
					authority = []string{tt.soa + strings.TrimPrefix(soa, "cluster.local.")}
				}
			}
			if diff := cmp.Diff(authority, texts(r.Authority)); diff != "" {
				t.Errorf("authority (-want +got):\n%s", diff)
			}
		})
	}
}

// There are clients that keep a denial for as long as its SOA lives.
func TestZone_For_DenialTTL(t *testing.T) {
	zone := testZone()
	zone.TTL = 3600
	for name, ttl := range map[string]uint32{"nope.ns.svc.cluster.local.": 300, "cluster.local.": 300, "8.8.8.8.in-addr.arpa.": 300} {
		r := zone.For(testIndex(), message.Question{Name: name, Type: dns.TypeSOA})
		soa, ok := slices.Concat(r.Answer, r.Authority)[0].(*dns.SOA)
		if !ok || soa.Hdr.Ttl != ttl || soa.Minttl != 3600 {
			t.Errorf("%s: %v", name, soa)
		}
	}
	if r := zone.For(testIndex(), message.Question{Name: "web.ns.svc.cluster.local.", Type: dns.TypeA}); r.Answer[0].Header().Ttl != 3600 {
		t.Errorf("an address: %v", r.Answer)
	}
}

// The name server has the name of the Service at its address.
func TestZone_For_NameServer(t *testing.T) {
	zone := testZone()
	zone.NameServers = []netip.Addr{netip.MustParseAddr("10.96.0.5"), netip.MustParseAddr("fd00::5")}
	r := zone.For(testIndex(), message.Question{Name: "cluster.local.", Type: dns.TypeNS})
	if diff := cmp.Diff([]string{"cluster.local. 5 IN NS web.ns.svc.cluster.local."}, texts(r.Answer)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	want := []string{"web.ns.svc.cluster.local. 5 IN A 10.96.0.5", "web.ns.svc.cluster.local. 5 IN AAAA fd00::5"}
	if diff := cmp.Diff(want, texts(r.Extra)); diff != "" {
		t.Errorf("additional (-want +got):\n%s", diff)
	}
}

func TestZone_For_Options(t *testing.T) {
	const none, denied = dns.RcodeSuccess, dns.RcodeNameError
	tests := []struct {
		name   string
		change func(*Zone)
		want   map[string]int // code by name
	}{
		{"verified pods", func(z *Zone) { z.Pods = corefile.PodsVerified }, map[string]int{
			"10-244-0-1.ns.pod.cluster.local.": none, "1-2-3-4.ns.pod.cluster.local.": denied,
		}},
		{"disabled pods", func(z *Zone) { z.Pods = corefile.PodsDisabled }, map[string]int{
			"10-244-0-1.ns.pod.cluster.local.": denied, "ns.pod.cluster.local.": denied, "pod.cluster.local.": denied,
		}},
		{"namespaces", func(z *Zone) { z.Namespaces = []string{"other"} }, map[string]int{
			"web.ns.svc.cluster.local.": denied, "ns.svc.cluster.local.": denied, "1-2-3-4.ns.pod.cluster.local.": denied, "5.0.96.10.in-addr.arpa.": denied,
		}},
		{"no endpoints", func(z *Zone) { z.NoEndpoints = true }, map[string]int{
			"web.ns.svc.cluster.local.": none, "db.ns.svc.cluster.local.": denied, "db-0.db.ns.svc.cluster.local.": denied, "1.0.244.10.in-addr.arpa.": denied,
		}},
		{"empty services", func(z *Zone) { z.IgnoreEmpty = true }, map[string]int{
			"web.ns.svc.cluster.local.": none, "empty.ns.svc.cluster.local.": denied, "out.ns.svc.cluster.local.": none,
		}},
		{"as it is", func(*Zone) {}, map[string]int{"empty.ns.svc.cluster.local.": none}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			z := testZone()
			tt.change(&z)
			for name, want := range tt.want {
				if r := z.For(testIndex(), message.Question{Name: name, Type: dns.TypeA}); r.Rcode != want || !r.Handled {
					t.Errorf("%s: %s", name, dns.RcodeToString[r.Rcode])
				}
			}
		})
	}
}

func TestIndex_With_RemovesReverseNames(t *testing.T) {
	x := testIndex()
	before := x.Names(netip.MustParseAddr("10.244.0.1"))
	next := x.With(index.Changes{Services: map[index.Key]*index.Service{{Namespace: "ns", Name: "db"}: nil}})
	if got := next.Names(netip.MustParseAddr("10.244.0.1")); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	if got := x.Names(netip.MustParseAddr("10.244.0.1")); !cmp.Equal(before, got) || len(got) != 1 {
		t.Errorf("the old state changed to %v", got)
	}
	if next.Serial != x.Serial+1 || next.Service("ns", "db") != nil || x.Service("ns", "db") == nil {
		t.Error("states are not apart")
	}
}

// An endpoint that has gone has no name any more, one that has come has, and those that stay keep theirs.
func TestIndex_With_ChangesReverseNames(t *testing.T) {
	x := testIndex()
	spec := corev1.ServiceSpec{ClusterIP: "10.96.0.5"}
	for _, step := range []struct {
		name      string
		endpoints []discoveryv1.Endpoint
		want      map[string]int // names by address
	}{
		{"one more", []discoveryv1.Endpoint{endpoint("10.244.0.7", "", true), endpoint("10.244.0.8", "", true)}, map[string]int{"10.96.0.5": 1, "fd00::5": 0, "10.244.0.7": 1, "10.244.0.8": 1}},
		{"another one", []discoveryv1.Endpoint{endpoint("10.244.0.8", "", true)}, map[string]int{"10.96.0.5": 1, "10.244.0.7": 0, "10.244.0.8": 1}},
		{"not ready", []discoveryv1.Endpoint{endpoint("10.244.0.8", "", false)}, map[string]int{"10.96.0.5": 1, "10.244.0.8": 0}},
		{"of a pod behind two", []discoveryv1.Endpoint{endpoint("10.244.0.1", "", true)}, map[string]int{"10.244.0.1": 2}},
		{"and of one again", nil, map[string]int{"10.244.0.1": 1}},
	} {
		s := index.NewService(service("web", spec), []*discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeIPv4, step.endpoints...)})
		x = x.With(index.Changes{Services: map[index.Key]*index.Service{s.Key: s}})
		for addr, want := range step.want {
			if got := x.Names(netip.MustParseAddr(addr)); len(got) != want {
				t.Errorf("%s: %s has the names %v", step.name, addr, got)
			}
		}
	}
}

func BenchmarkFor(b *testing.B) {
	x, zone := testIndex(), testZone()
	for b.Loop() {
		zone.For(x, message.Question{Name: "web.ns.svc.cluster.local.", Type: dns.TypeA})
	}
}

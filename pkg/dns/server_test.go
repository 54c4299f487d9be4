// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/dns/internal/index"
)

func clusterService(name, ip string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func endpointSlice(service string, n int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i := range n {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.%d", i/250, i%250+1)}})
	}
	return s
}

func start(t *testing.T, client *fake.Clientset, change func(*Config)) *Server {
	t.Helper()
	factory := informers.NewSharedInformerFactory(client, 0)
	cfg := Config{Addrs: []string{"127.0.0.1:0"}, Informers: factory, ResolvConf: "none", ServiceIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	addr := s.Addrs()[0].String()
	m := exchange(t, "udp", addr, "web.ns.svc.cluster.local.", dns.TypeA)
	if m.Rcode != dns.RcodeServerFailure {
		t.Errorf("before the first sync: %s", dns.RcodeToString[m.Rcode])
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
		factory.Shutdown()
		if pc, err := net.ListenPacket("udp", addr); err != nil {
			t.Errorf("the socket is still open: %v", err)
		} else {
			_ = pc.Close()
		}
	})
	eventually(t, "sync", s.Synced)
	return s
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return cond(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func exchange(t *testing.T, network, addr, name string, qtype uint16) *dns.Msg {
	t.Helper()
	c := &dns.Client{Net: network, Timeout: 5 * time.Second}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), addr)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newClient(t *testing.T) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*corev1.Service{clusterService("web", "10.96.0.5"), clusterService("many", "None")} {
		if _, err := client.CoreV1().Services("ns").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.DiscoveryV1().EndpointSlices("ns").Create(t.Context(), endpointSlice("many", 100), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestServer(t *testing.T) {
	client := newClient(t)
	s := start(t, client, nil)
	addr := s.Addrs()[0].String()

	for _, network := range []string{"udp", "tcp"} {
		m := exchange(t, network, addr, "web.ns.svc.cluster.local.", dns.TypeA)
		if len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "10.96.0.5" || !m.Authoritative {
			t.Errorf("%s: %v", network, m)
		}
	}
	if m := exchange(t, "udp", addr, "www.example.com.", dns.TypeA); m.Rcode != dns.RcodeRefused {
		t.Errorf("outside without upstream: %s", dns.RcodeToString[m.Rcode])
	}

	// 100 addresses do not fit into 512 bytes, nor 1232; TCP has them all.
	small := exchange(t, "udp", addr, "many.ns.svc.cluster.local.", dns.TypeA)
	small.Compress = true // as it came
	if !small.Truncated || small.Len() > dns.MinMsgSize {
		t.Errorf("UDP: truncated %v, %d bytes", small.Truncated, small.Len())
	}
	if m := exchange(t, "tcp", addr, "many.ns.svc.cluster.local.", dns.TypeA); m.Truncated || len(m.Answer) != 100 {
		t.Errorf("TCP: truncated %v, %d records", m.Truncated, len(m.Answer))
	}
	q := new(dns.Msg).SetQuestion("many.ns.svc.cluster.local.", dns.TypeA).SetEdns0(4096, false)
	m, _, err := new(dns.Client).Exchange(q, addr)
	if err != nil || m.Truncated || len(m.Answer) != 100 || m.IsEdns0() == nil {
		t.Errorf("EDNS0: %v, %v", m, err)
	}

	// Changes arrive.
	if _, err := client.CoreV1().Services("ns").Create(t.Context(), clusterService("new", "10.96.0.6"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new service", func() bool {
		return len(exchange(t, "udp", addr, "new.ns.svc.cluster.local.", dns.TypeA).Answer) == 1
	})
	if err := client.CoreV1().Services("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deleted service", func() bool {
		return exchange(t, "udp", addr, "web.ns.svc.cluster.local.", dns.TypeA).Rcode == dns.RcodeNameError
	})
	if err := client.DiscoveryV1().EndpointSlices("ns").Delete(t.Context(), "many-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deleted endpoints", func() bool {
		return exchange(t, "udp", addr, "many.ns.svc.cluster.local.", dns.TypeA).Rcode == dns.RcodeNameError
	})
}

func TestServer_Upstream(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	srv := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 9)}}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = srv.Shutdown() })

	client := newClient(t)
	out := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "out"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"}}
	if _, err := client.CoreV1().Services("ns").Create(t.Context(), out, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := start(t, client, func(c *Config) { c.Upstreams = []string{pc.LocalAddr().String()} })
	addr := s.Addrs()[0].String()
	m := exchange(t, "udp", addr, "Www.Example.com.", dns.TypeA)
	if len(m.Answer) != 1 || m.Authoritative || m.Question[0].Name != "Www.Example.com." {
		t.Errorf("forwarded: %v", m)
	}
	m = exchange(t, "udp", addr, "out.ns.svc.cluster.local.", dns.TypeA)
	if len(m.Answer) != 2 || m.Answer[0].Header().Rrtype != dns.TypeCNAME || m.Answer[1].(*dns.A).A.String() != "192.0.2.9" {
		t.Errorf("external name: %v", m)
	}
}

func TestServer_NeverAsksItself(t *testing.T) {
	s := start(t, newClient(t), nil)
	own := s.Addrs()[0]
	for server, want := range map[netip.AddrPort]bool{
		own:                                      true,
		netip.MustParseAddrPort("10.96.0.10:53"): true,
		netip.MustParseAddrPort("127.0.0.53:53"): false,
		netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), 53): false,
	} {
		if got := s.own(server); got != want {
			t.Errorf("%s: %v", server, got)
		}
	}
}

// FuzzRespond feeds arbitrary messages to the server: it must neither panic nor make a reply that cannot be sent.
func FuzzRespond(f *testing.F) {
	for _, q := range []struct {
		name  string
		qtype uint16
	}{
		{"web.ns.svc.cluster.local.", dns.TypeA}, {"_http._tcp.many.ns.svc.cluster.local.", dns.TypeSRV},
		{"1.0.244.10.in-addr.arpa.", dns.TypePTR}, {"1-2-3-4.ns.pod.cluster.local.", dns.TypeAAAA}, {".", dns.TypeNS}, {"out.ns.svc.cluster.local.", dns.TypeANY},
	} {
		b, err := new(dns.Msg).SetQuestion(q.name, q.qtype).SetEdns0(1232, true).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
	}
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false)
	s, err := New(Config{Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), ResolvConf: "none"})
	if err != nil {
		f.Fatal(err)
	}
	changes := index.Changes{Services: map[index.Key]*index.Service{}, Namespaces: map[string]bool{"ns": true}}
	for _, svc := range []*index.Service{
		index.NewService(clusterService("web", "10.96.0.5"), nil),
		index.NewService(clusterService("many", "None"), []*discoveryv1.EndpointSlice{endpointSlice("many", 100)}),
		index.NewService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "out"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"}}, nil),
	} {
		changes.Services[svc.Key] = svc
	}
	s.index.Store(index.Empty(1).With(changes))
	f.Fuzz(func(t *testing.T, data []byte, udp bool) {
		req := new(dns.Msg)
		if err := req.Unpack(data); err != nil {
			return
		}
		reply := s.respond(t.Context(), req, udp)
		if reply.Id != req.Id || !reply.Response {
			t.Errorf("not a reply to %v: %v", req, reply)
		}
		packed, err := reply.Pack()
		if err != nil {
			t.Fatalf("reply to %v cannot be packed: %v", req, err)
		}
		if udp && len(packed) > 4096 {
			t.Errorf("%d bytes over UDP", len(packed))
		}
	})
}

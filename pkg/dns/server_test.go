// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

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

// start runs a server with a listener on a loopback address. Nothing is asked elsewhere unless the Corefile says so.
func start(t *testing.T, client *fake.Clientset, change func(*Config)) (*Server, string) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(client, 0)
	cfg := Config{Client: client, Informers: factory, ResolvConf: "none", ServiceIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(ListenConfig{Addr: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- s.Start(ctx) }()
	go func() { done <- l.Serve(ctx) }()
	addr := l.Addr().String()
	m := exchange(t, "udp", addr, "web.ns.svc.cluster.local.", dns.TypeA)
	if m.Rcode != dns.RcodeServerFailure {
		t.Errorf("before the first sync: %s", dns.RcodeToString[m.Rcode])
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("at the end: %v", err)
			}
		}
		factory.Shutdown()
		if pc, err := net.ListenPacket("udp", addr); err != nil {
			t.Errorf("the socket is still open: %v", err)
		} else {
			_ = pc.Close()
		}
	})
	eventually(t, "sync", s.Synced)
	return s, addr
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
	_, addr := start(t, client, nil)
	for _, network := range []string{"udp", "tcp"} {
		m := exchange(t, network, addr, "web.ns.svc.cluster.local.", dns.TypeA)
		if len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "10.96.0.5" || !m.Authoritative || m.Answer[0].Header().Ttl != 30 {
			t.Errorf("%s: %v", network, m)
		}
	}
	// Letters come back as they were sent.
	m := exchange(t, "udp", addr, "wEb.nS.svc.Cluster.Local.", dns.TypeA)
	if len(m.Answer) != 1 || m.Answer[0].Header().Name != "wEb.nS.svc.Cluster.Local." || m.Question[0].Name != "wEb.nS.svc.Cluster.Local." {
		t.Errorf("any case: %v", m)
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
	if err != nil || m.Truncated || len(m.Answer) != 100 || m.IsEdns0() == nil || m.IsEdns0().UDPSize() != 1232 {
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

// upstream answers every question with an address, after it was let.
func upstream(t *testing.T, address string, let <-chan struct{}) string {
	t.Helper()
	return answering(t, func(m *dns.Msg) {
		if let != nil {
			<-let
		}
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(address)}}
	})
}

// answering answers every question by what a function makes of a reply, which has AD as the question has.
func answering(t *testing.T, answer func(*dns.Msg)) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	srv := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.AuthenticatedData = r.AuthenticatedData
		answer(m)
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = srv.Shutdown() })
	return pc.LocalAddr().String()
}

// write makes a text the Corefile of the cluster.
func write(t *testing.T, client *fake.Clientset, text string) {
	t.Helper()
	all := client.CoreV1().ConfigMaps(ConfigNamespace)
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigName, Namespace: ConfigNamespace}, Data: map[string]string{ConfigKey: text}}
	_, err := all.Create(t.Context(), c, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = all.Update(t.Context(), c, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

const clusterBlock = ".:53 {\n errors\n kubernetes cluster.local\n loadbalance\n}\n"

func TestServer_Upstream(t *testing.T) {
	client := newClient(t)
	out := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "out"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"},
	}
	if _, err := client.CoreV1().Services("ns").Create(t.Context(), out, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The alias leads to a name of another block.
	write(t, client, clusterBlock+"example.com:53 {\n cache\n forward . "+upstream(t, "192.0.2.9", nil)+"\n}\n")
	_, addr := start(t, client, nil)
	m := exchange(t, "udp", addr, "Www.Example.com.", dns.TypeA)
	if len(m.Answer) != 1 || m.Authoritative || m.Question[0].Name != "Www.Example.com." || m.Answer[0].Header().Name != "Www.Example.com." {
		t.Errorf("forwarded: %v", m)
	}
	m = exchange(t, "udp", addr, "out.ns.svc.cluster.local.", dns.TypeA)
	if len(m.Answer) != 2 || m.Answer[0].Header().Rrtype != dns.TypeCNAME || m.Answer[1].(*dns.A).A.String() != "192.0.2.9" {
		t.Errorf("external name: %v", m)
	}
}

// Whether an answer was validated is told to who can understand it, from the cache as well.
func TestServer_Authenticated(t *testing.T) {
	client := newClient(t)
	write(t, client, "example.com {\n cache\n forward . "+upstream(t, "192.0.2.9", nil)+"\n}\n")
	_, addr := start(t, client, nil)
	for _, tt := range []struct{ ad, signatures, want bool }{{}, {ad: true, want: true}, {signatures: true, want: true}, {}} {
		q := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
		if q.AuthenticatedData = tt.ad; tt.signatures {
			q.SetEdns0(1232, true)
		}
		if m, _, err := new(dns.Client).Exchange(q, addr); err != nil || m.AuthenticatedData != tt.want || len(m.Answer) != 1 {
			t.Errorf("%+v: %v, %v", tt, m, err)
		}
	}
}

// One record that is too long for the client is left out, too.
func TestServer_LongRecord(t *testing.T) {
	client := newClient(t)
	text := []string{strings.Repeat("a", 255), strings.Repeat("b", 255), strings.Repeat("c", 255)}
	write(t, client, "example.com {\n forward . "+answering(t, func(m *dns.Msg) {
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: text}}
	})+"\n}\n")
	_, addr := start(t, client, nil)
	q := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeTXT)
	m, _, err := new(dns.Client).Exchange(q, addr)
	if err != nil || !m.Truncated || len(m.Answer) != 0 {
		t.Errorf("UDP: %v, %v", m, err)
	}
	if m, _, err = (&dns.Client{Net: "tcp"}).Exchange(q, addr); err != nil || m.Truncated || len(m.Answer) != 1 {
		t.Errorf("TCP: %v, %v", m, err)
	}
}

// An alias of which the end is known in part is told so, to be asked for again by TCP.
func TestServer_Truncated(t *testing.T) {
	client := newClient(t)
	out := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "out"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"},
	}
	if _, err := client.CoreV1().Services("ns").Create(t.Context(), out, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write(t, client, clusterBlock+"example.com {\n cache\n forward . "+answering(t, func(m *dns.Msg) {
		m.Truncated = true
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 9)}}
	})+"\n}\n")
	_, addr := start(t, client, nil)
	for range 2 {
		if m := exchange(t, "udp", addr, "out.ns.svc.cluster.local.", dns.TypeA); !m.Truncated || len(m.Answer) != 2 {
			t.Errorf("got %v", m)
		}
	}
}

// A code that needs EDNS is no answer for who does not know that.
func TestServer_ExtendedCode(t *testing.T) {
	client := newClient(t)
	write(t, client, "example.com {\n forward . "+answering(t, func(m *dns.Msg) {
		m.SetEdns0(1232, false).Rcode = dns.RcodeBadCookie
	})+"\n}\n")
	_, addr := start(t, client, nil)
	for _, network := range []string{"udp", "tcp"} {
		if m := exchange(t, network, addr, "www.example.com.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s: %s", network, dns.RcodeToString[m.Rcode])
		}
	}
}

// Caches on nodes ask by connections that they keep.
func TestServer_KeptConnection(t *testing.T) {
	_, addr := start(t, newClient(t), nil)
	conn, err := dns.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 300 {
		m, _, err := new(dns.Client).ExchangeWithConn(new(dns.Msg).SetQuestion("web.ns.svc.cluster.local.", dns.TypeA), conn)
		if err != nil || len(m.Answer) != 1 {
			t.Fatalf("question %d: %v, %v", i, m, err)
		}
	}
}

// What is above max_concurrent is refused.
func TestServer_Busy(t *testing.T) {
	client := newClient(t)
	asked, let := make(chan struct{}, 1), make(chan struct{})
	defer close(let) // before the cleanup, which waits for the server's answers
	write(t, client, "example.com {\n forward . "+answering(t, func(*dns.Msg) {
		asked <- struct{}{}
		<-let
	})+" {\n max_concurrent 1\n }\n}\n")
	_, addr := start(t, client, nil)
	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	packed, err := new(dns.Msg).SetQuestion("a.example.com.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(packed); err != nil {
		t.Fatal(err)
	}
	<-asked
	if m := exchange(t, "udp", addr, "b.example.com.", dns.TypeA); m.Rcode != dns.RcodeRefused {
		t.Errorf("got %s", dns.RcodeToString[m.Rcode])
	}
}

// What the cluster and the cache know is answered while a server hangs, however many wait for that.
func TestServer_DeadUpstream(t *testing.T) {
	client := newClient(t)
	let := make(chan struct{})
	defer close(let) // before the cleanup, which waits for the server's answers
	write(t, client, clusterBlock+"slow.org {\n forward . "+upstream(t, "192.0.2.1", let)+"\n}\nfast.org {\n cache\n forward . "+upstream(t, "192.0.2.2", nil)+"\n}\n")
	_, addr := start(t, client, nil)
	exchange(t, "udp", addr, "www.fast.org.", dns.TypeA)

	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	started := time.Now()
	for i := range 3000 {
		if i%100 == 0 { // those before have been read then: a socket that is full loses questions, also those of the cluster
			exchange(t, "udp", addr, "web.ns.svc.cluster.local.", dns.TypeA)
		}
		packed, err := new(dns.Msg).SetQuestion(fmt.Sprintf("x%d.slow.org.", i), dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(packed); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if m := exchange(t, "udp", addr, "web.ns.svc.cluster.local.", dns.TypeA); len(m.Answer) != 1 {
			t.Errorf("of the cluster: %v", m)
		}
		if m := exchange(t, "udp", addr, "www.fast.org.", dns.TypeA); len(m.Answer) != 1 {
			t.Errorf("of the cache: %v", m)
		}
	}
	if took := time.Since(started); took > 10*time.Second { // one that waits for the server takes two seconds
		t.Errorf("70 answers took %v", took)
	}
}

// A changed Corefile is used without a question that is lost; one that is wrong is not, and an event says why.
func TestServer_Reload(t *testing.T) {
	client := newClient(t)
	events := record.NewFakeRecorder(20)
	one, two := upstream(t, "192.0.2.1", nil), upstream(t, "192.0.2.2", nil)
	block := func(server string) string { return clusterBlock + "example.org {\n forward . " + server + "\n}\n" }
	write(t, client, block(one))
	_, addr := start(t, client, func(c *Config) { c.Recorder = events })
	asked := func() string {
		m := exchange(t, "udp", addr, "a.example.org.", dns.TypeA)
		if len(m.Answer) != 1 {
			t.Errorf("lost: %v", m)
			return ""
		}
		return m.Answer[0].(*dns.A).A.String()
	}
	if got := asked(); got != "192.0.2.1" {
		t.Errorf("at first: %s", got)
	}
	write(t, client, block(two))
	eventually(t, "the other server", func() bool { return asked() == "192.0.2.2" })
	if e := <-events.Events; e != "Normal CorefileLoaded Cluster DNS uses the changed Corefile" {
		t.Errorf("event %q", e)
	}
	write(t, client, block(one)+"\nexample.com {\n autopath\n}\n")
	want := `Warning InvalidCorefile Corefile:11: plugin "autopath" is not supported`
	if e := <-events.Events; !strings.HasPrefix(e, want) || !strings.HasSuffix(e, "; the one before is kept") {
		t.Errorf("event %q", e)
	}
	if got := asked(); got != "192.0.2.2" {
		t.Errorf("after a wrong one: %s", got)
	}
	write(t, client, block(one))
	eventually(t, "the first server again", func() bool { return asked() == "192.0.2.1" })
	// Without a ConfigMap the default counts, which has no server here.
	if err := client.CoreV1().ConfigMaps(ConfigNamespace).Delete(t.Context(), ConfigName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the default", func() bool {
		return exchange(t, "udp", addr, "a.example.org.", dns.TypeA).Rcode == dns.RcodeRefused
	})
}

func TestServer_VerifiedPods(t *testing.T) {
	client := newClient(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.244.0.5"}}}}
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write(t, client, ". {\n kubernetes cluster.local {\n pods verified\n }\n}\n")
	_, addr := start(t, client, nil)
	eventually(t, "the pod", func() bool {
		return len(exchange(t, "udp", addr, "10-244-0-5.ns.pod.cluster.local.", dns.TypeA).Answer) == 1
	})
	if m := exchange(t, "udp", addr, "10-244-0-6.ns.pod.cluster.local.", dns.TypeA); m.Rcode != dns.RcodeNameError {
		t.Errorf("no such pod: %v", m)
	}
	write(t, client, ". {\n kubernetes cluster.local {\n pods insecure\n }\n}\n")
	eventually(t, "any address", func() bool {
		return len(exchange(t, "udp", addr, "10-244-0-6.ns.pod.cluster.local.", dns.TypeA).Answer) == 1
	})
}

// The address of a pod that has ended may be that of a pod of another namespace.
func TestPodAddrs(t *testing.T) {
	pod := func(ip string, phase corev1.PodPhase, deleted *metav1.Time) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a" + ip, DeletionTimestamp: deleted},
			Status:     corev1.PodStatus{Phase: phase, PodIPs: []corev1.PodIP{{IP: ip}, {IP: "fd00::" + ip[len(ip)-1:]}}},
		}
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for _, p := range []*corev1.Pod{
		pod("10.0.0.1", corev1.PodRunning, nil), pod("10.0.0.2", corev1.PodSucceeded, nil), pod("10.0.0.3", corev1.PodFailed, nil),
		pod("10.0.0.4", corev1.PodRunning, new(metav1.Now())), pod("10.0.0.5", corev1.PodPending, nil),
	} {
		kept, err := onlyAddresses(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Add(kept); err != nil {
			t.Fatal(err)
		}
	}
	want := map[index.PodKey]bool{}
	for _, ip := range []string{"10.0.0.1", "fd00::1", "10.0.0.5", "fd00::5"} {
		want[index.PodKey{Namespace: "ns", Addr: netip.MustParseAddr(ip)}] = true
	}
	if got := podAddrs(store); !maps.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestServer_NeverAsksItself(t *testing.T) {
	s, addr := start(t, newClient(t), nil)
	for server, want := range map[netip.AddrPort]bool{
		netip.MustParseAddrPort(addr):                            true,
		netip.MustParseAddrPort("10.96.0.10:53"):                 true,
		netip.MustParseAddrPort("127.0.0.53:53"):                 false,
		netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), 53): false,
	} {
		if got := s.own(server); got != want {
			t.Errorf("%s: %v", server, got)
		}
	}
}

func TestServer_Metrics(t *testing.T) {
	metrics := NewMetrics()
	_, addr := start(t, newClient(t), func(c *Config) { c.Metrics = metrics })
	exchange(t, "udp", addr, "web.ns.svc.cluster.local.", dns.TypeA)
	exchange(t, "tcp", addr, "nope.ns.svc.cluster.local.", dns.TypeAAAA)
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, MetricsPath, nil))
	for _, want := range []string{
		`coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="A",view="",zone="."} 1`,
		`coredns_dns_requests_total{family="1",proto="tcp",server="dns://:53",type="AAAA",view="",zone="."} 1`,
		`coredns_dns_responses_total{plugin="kubernetes",rcode="NXDOMAIN",server="dns://:53",view="",zone="."} 1`,
		`coredns_dns_request_duration_seconds_count{server="dns://:53",view="",zone="."} 2`,
		`coredns_plugin_enabled{name="forward",server="dns://:53",view="",zone="."} 1`,
		"coredns_panics_total 0",
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
}

// A question of which the answer has to be waited for is counted once, whichever way it came.
func TestServer_CacheMetrics(t *testing.T) {
	client, metrics := newClient(t), NewMetrics()
	write(t, client, "example.com {\n cache\n forward . "+upstream(t, "192.0.2.9", nil)+"\n}\n")
	_, addr := start(t, client, func(c *Config) { c.Metrics = metrics })
	for _, q := range []struct{ network, name string }{{"udp", "a"}, {"udp", "a"}, {"tcp", "b"}, {"udp", "b"}, {"udp", "c"}} {
		if m := exchange(t, q.network, addr, q.name+".example.com.", dns.TypeA); len(m.Answer) != 1 {
			t.Errorf("%s: %v", q.name, m)
		}
	}
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, MetricsPath, nil))
	for _, want := range []string{
		`coredns_cache_requests_total{server="dns://:53",view="",zones="example.com."} 5`,
		`coredns_cache_misses_total{server="dns://:53",view="",zones="example.com."} 3`,
		`coredns_cache_hits_total{server="dns://:53",type="success",view="",zones="example.com."} 2`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
}

// Nothing but questions is answered, and what is broken only by a code.
func TestServer_Broken(t *testing.T) {
	_, addr := start(t, newClient(t), nil)
	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(b []byte) []byte {
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 512)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := conn.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		return answer[:n]
	}
	for _, b := range [][]byte{{1}, {0, 1, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}} { // too short, an answer
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask([]byte{7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5, 'a'}); !bytes.Equal(got, []byte{7, 7, 0x81, dns.RcodeFormatError, 0, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("a question that ends early: %v", got)
	}
}

func TestServer_TooManyConnections(t *testing.T) {
	_, addr := start(t, newClient(t), nil)
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for range maxPerClient {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	one, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	_ = one.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := one.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one too many: %v", err)
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
	client := fake.NewClientset()
	s, err := New(Config{Client: client, Informers: informers.NewSharedInformerFactory(client, 0), ResolvConf: "none"})
	if err != nil {
		f.Fatal(err)
	}
	l := loader{server: s}
	l.take(DefaultCorefile("cluster.local"))
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
		packed, err := s.respond(t.Context(), request{msg: req, tcp: !udp}, true, make([]byte, dns.MinMsgSize))
		if err != nil {
			t.Fatalf("reply to %v cannot be packed: %v", req, err)
		}
		reply := new(dns.Msg)
		if err := reply.Unpack(packed); err != nil || reply.Id != req.Id || !reply.Response {
			t.Errorf("not a reply to %v: %v, %v", req, reply, err)
		}
		if udp && len(packed) > 4096 {
			t.Errorf("%d bytes over UDP", len(packed))
		}
	})
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// space is a network namespace without a name: it ends with the test process, however that ends.
type space struct{ handle netns.NsHandle }

func (s space) path() string { return fmt.Sprintf("/proc/self/fd/%d", int(s.handle)) }

func newSpace(tb testing.TB) space {
	tb.Helper()
	made := make(chan netns.NsHandle, 1)
	errs := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine, as it stays locked.
		runtime.LockOSThread()
		h, err := netns.New()
		if err != nil {
			errs <- err
			return
		}
		made <- h
	}()
	select {
	case h := <-made:
		tb.Cleanup(func() { _ = h.Close() })
		s := space{h}
		s.link(tb, "lo")
		return s
	case err := <-errs:
		machinetest.Lacks(tb, "needs network namespaces: %v", err)
	}
	return space{}
}

func (s space) do(tb testing.TB, f func() error) {
	tb.Helper()
	if err := namespace.Do(s.path(), f); err != nil {
		tb.Fatal(err)
	}
}

func (s space) link(tb testing.TB, name string, addrs ...string) {
	tb.Helper()
	s.do(tb, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, addr); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(l)
	})
}

// quick lets IPv6 addresses of a link be used at once.
func (s space) quick(t *testing.T, name string) {
	t.Helper()
	s.do(t, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0o644)
	})
}

func (s space) route(t *testing.T, dst, via, dev string) {
	t.Helper()
	s.do(t, func() error {
		l, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: prefix(dst)}
		if via != "" {
			r.Gw = net.ParseIP(via)
		} else {
			r.Scope = netlink.SCOPE_LINK
		}
		return netlink.RouteAdd(r)
	})
}

func prefix(s string) *net.IPNet {
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return n
}

// connect joins two namespaces by a veth pair.
func connect(t *testing.T, a space, nameA string, b space, nameB string) {
	t.Helper()
	a.do(t, func() error {
		v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nameA}, PeerName: nameB, PeerNamespace: netlink.NsFd(int(b.handle))}
		return netlink.LinkAdd(v)
	})
}

// newPod makes a namespace plumbed as pods are: a /32 and a link-local gateway that the node answers ARP for.
func newPod(t *testing.T, node space, dev, ip string) space {
	t.Helper()
	pod := newSpace(t)
	connect(t, node, dev, pod, "eth0")
	node.link(t, dev)
	node.do(t, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/conf/"+dev+"/proxy_arp", []byte("1"), 0o644)
	})
	node.route(t, ip+"/32", "", dev)
	pod.link(t, "eth0", ip+"/32")
	pod.route(t, "169.254.1.1/32", "", "eth0")
	pod.route(t, "0.0.0.0/0", "169.254.1.1", "eth0")
	return pod
}

// serve answers on TCP and UDP port 8080 with its name and the client's address.
func serve(t *testing.T, s space, name string) {
	t.Helper()
	s.do(t, func() error {
		ln, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				_, _ = fmt.Fprintf(c, "%s from %s", name, strings.TrimPrefix(host, "::ffff:"))
				_ = c.Close()
			}
		}()
		pc, err := net.ListenPacket("udp4", ":8080")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = pc.Close() })
		go func() {
			buf := make([]byte, 64)
			for {
				_, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(from.String())
				_, _ = pc.WriteTo([]byte(name+" from "+host), from)
			}
		}()
		return nil
	})
}

func ask(s space, network, addr string) (string, error) {
	var answer string
	err := namespace.Do(s.path(), func() error {
		c, err := net.DialTimeout(network, addr, 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		answer, err = exchange(c)
		return err
	})
	return answer, err
}

func exchange(c net.Conn) (string, error) {
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	if c.LocalAddr().Network() == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	buf := make([]byte, 128)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

type world struct {
	node, podA, podB, outside space
	client                    *fake.Clientset
	proxy                     *Proxy
	stop                      func()
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	machinetest.Root(t, "for network namespaces")
	machinetest.Programs(t, "iptables-restore")
	w := &world{node: newSpace(t), client: fake.NewClientset()}
	w.podA = newPod(t, w.node, "poda", "10.244.0.2")
	w.podB = newPod(t, w.node, "podb", "10.244.0.3")
	w.outside = newSpace(t)
	connect(t, w.node, "eth0", w.outside, "eth0")
	w.node.link(t, "eth0", "192.0.2.1/24")
	w.outside.link(t, "eth0", "192.0.2.77/24")
	w.outside.route(t, "0.0.0.0/0", "192.0.2.1", "eth0")
	w.node.route(t, "0.0.0.0/0", "192.0.2.254", "eth0")
	w.node.do(t, func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) })
	// A new namespace begins with what the machine has.
	w.node.do(t, func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/route_localnet", []byte("0"), 0o644) })
	serve(t, w.podA, "A")
	serve(t, w.podB, "B")

	factory := informers.NewSharedInformerFactory(w.client, 0)
	config := Config{
		Cluster: "netns-test", NodeName: "here", Informers: factory, NetNS: w.node.path(),
		NodeIPs:      []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
	}
	for _, c := range change {
		c(&config)
	}
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.proxy = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	factory.Start(ctx.Done())
	go func() { done <- p.Start(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
		factory.Shutdown()
	}
	t.Cleanup(w.stop)
	return w
}

func dualService(name, ip string, nodePort int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: ip, ClusterIPs: []string{ip},
			Ports: []corev1.ServicePort{
				{Name: "t", Port: 80, NodePort: nodePort, Protocol: corev1.ProtocolTCP},
				{Name: "u", Port: 80, NodePort: nodePort, Protocol: corev1.ProtocolUDP},
			},
		},
	}
}

// clusterService is reached by its cluster IP alone.
func clusterService(name, ip string) *corev1.Service {
	s := dualService(name, ip, 0)
	s.Spec.Type = corev1.ServiceTypeClusterIP
	return s
}

func dualSlice(service string, ips ...string) *discoveryv1.EndpointSlice {
	tcp, udp, tn, un, port, node := corev1.ProtocolTCP, corev1.ProtocolUDP, "t", "u", int32(8080), "here"
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &tn, Port: &port, Protocol: &tcp}, {Name: &un, Port: &port, Protocol: &udp}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &node})
	}
	return s
}

func (w *world) setService(t *testing.T, svc *corev1.Service, create bool) {
	t.Helper()
	var err error
	if create {
		_, err = w.client.CoreV1().Services(svc.Namespace).Create(t.Context(), svc, metav1.CreateOptions{})
	} else {
		_, err = w.client.CoreV1().Services(svc.Namespace).Update(t.Context(), svc, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) setSlice(t *testing.T, s *discoveryv1.EndpointSlice, create bool) {
	t.Helper()
	var err error
	if create {
		_, err = w.client.DiscoveryV1().EndpointSlices(s.Namespace).Create(t.Context(), s, metav1.CreateOptions{})
	} else {
		_, err = w.client.DiscoveryV1().EndpointSlices(s.Namespace).Update(t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return cond(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// nft runs the program on the node.
func (w *world) nft(t *testing.T, args ...string) string {
	t.Helper()
	machinetest.Programs(t, "nft")
	cmd := exec.Command("nft", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	w.node.do(t, cmd.Start)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("nft %v: %v: %s", args, err, out.String())
	}
	return out.String()
}

// eachMode runs a test for every backend.
func eachMode(t *testing.T, test func(t *testing.T, mode func(*Config))) {
	t.Helper()
	for _, m := range []Mode{IPTables, NFTables} {
		t.Run(string(m), func(t *testing.T) { test(t, func(c *Config) { c.Mode = m }) })
	}
}

func TestRealTraffic(t *testing.T) { eachMode(t, testRealTraffic) }

func testRealTraffic(t *testing.T, mode func(*Config)) {
	t.Helper()
	w := newWorld(t, mode)
	w.setService(t, dualService("web", "10.96.0.5", 30080), true)
	eventually(t, "a service without endpoints refuses", func() bool {
		_, err := ask(w.podB, "tcp", "10.96.0.5:80")
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	w.setSlice(t, dualSlice("web", "10.244.0.2"), true)
	eventually(t, "the service answers", func() bool {
		got, err := ask(w.podB, "tcp", "10.96.0.5:80")
		return err == nil && strings.HasPrefix(got, "A ")
	})

	for name, from := range map[string]space{"pod": w.podB, "node": w.node} {
		for _, addr := range []string{"10.96.0.5:81", "10.96.0.99:80"} {
			if got, err := ask(from, "tcp", addr); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%s, which no Service has, from the %s: %q, %v, want refused", addr, name, got, err)
			}
		}
	}

	for _, network := range []string{"tcp", "udp"} {
		for _, tt := range []struct {
			name string
			from space
			addr string
			want string
		}{
			{"pod keeps its address", w.podB, "10.96.0.5:80", "A from 10.244.0.3"},
			{"hairpin is masqueraded", w.podA, "10.96.0.5:80", "A from 192.0.2.1"},
			{"node to cluster IP", w.node, "10.96.0.5:80", "A from 192.0.2.1"},
			{"outside to cluster IP", w.outside, "10.96.0.5:80", "A from 192.0.2.1"},
			{"outside to node port", w.outside, "192.0.2.1:30080", "A from 192.0.2.1"},
			{"pod to node port", w.podB, "192.0.2.1:30080", "A from 192.0.2.1"},
			{"node port on loopback", w.node, "127.0.0.1:30080", "A from 192.0.2.1"},
			{"another loopback address", w.node, "127.0.0.2:30080", ""},
		} {
			got, err := ask(tt.from, network, tt.addr)
			if (err != nil) != (tt.want == "") || got != tt.want {
				t.Errorf("%s over %s: got %q, %v, want %q", tt.name, network, got, err, tt.want)
			}
		}
	}

	t.Run("a cluster IP alone", func(t *testing.T) {
		w.setSlice(t, dualSlice("alone", "10.244.0.2"), true)
		w.setService(t, clusterService("alone", "10.96.0.7"), true)
		eventually(t, "it answers", func() bool {
			got, err := ask(w.podB, "tcp", "10.96.0.7:80")
			return err == nil && got == "A from 10.244.0.3"
		})
		for _, network := range []string{"tcp", "udp"} {
			for name, from := range map[string]space{"hairpin": w.podA, "node": w.node, "outside": w.outside} {
				if got, err := ask(from, network, "10.96.0.7:80"); err != nil || got != "A from 192.0.2.1" {
					t.Errorf("%s over %s: got %q, %v", name, network, got, err)
				}
			}
		}
		if got, err := ask(w.podB, "tcp", "10.96.0.7:81"); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a port that it has not: got %q, %v", got, err)
		}
		w.setSlice(t, dualSlice("alone", "10.244.0.2", "10.244.0.3"), false)
		seen := map[string]bool{}
		eventually(t, "both endpoints are used", func() bool {
			got, _ := ask(w.outside, "tcp", "10.96.0.7:80")
			seen[got] = true
			return seen["A from 192.0.2.1"] && seen["B from 192.0.2.1"]
		})
		w.setSlice(t, dualSlice("alone", "10.244.0.3"), false)
		eventually(t, "the other one is left", func() bool {
			for range 20 {
				if got, _ := ask(w.outside, "tcp", "10.96.0.7:80"); got != "B from 192.0.2.1" {
					return false
				}
			}
			return true
		})
		w.setSlice(t, dualSlice("alone"), false)
		eventually(t, "none is left", func() bool {
			_, err := ask(w.podB, "tcp", "10.96.0.7:80")
			return err != nil && strings.Contains(err.Error(), "refused")
		})
	})

	t.Run("no setting of the kernel has changed", func(t *testing.T) {
		w.node.do(t, func() error {
			data, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/route_localnet")
			if got := strings.TrimSpace(string(data)); err == nil && got != "0" {
				t.Errorf("route_localnet is %s", got)
			}
			return err
		})
	})

	t.Run("external policy Local keeps the client's address", func(t *testing.T) {
		svc := dualService("web", "10.96.0.5", 30080)
		svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		w.setService(t, svc, false)
		eventually(t, "source kept", func() bool {
			got, _ := ask(w.outside, "tcp", "192.0.2.1:30080")
			return got == "A from 192.0.2.77"
		})
		// The node itself may use any endpoint, also if none is here.
		elsewhere := dualSlice("web", "10.244.0.2")
		elsewhere.Endpoints[0].NodeName = new("there")
		w.setSlice(t, elsewhere, false)
		eventually(t, "no endpoint is here", func() bool {
			_, err := ask(w.outside, "tcp", "192.0.2.1:30080")
			return err != nil
		})
		if got, err := ask(w.node, "tcp", "127.0.0.1:30080"); err != nil || got != "A from 192.0.2.1" {
			t.Errorf("on loopback: got %q, %v", got, err)
		}
	})

	t.Run("session affinity", func(t *testing.T) {
		w.setSlice(t, dualSlice("web", "10.244.0.2", "10.244.0.3"), false)
		eventually(t, "both endpoints are used", func() bool {
			seen := map[string]bool{}
			for range 20 {
				got, _ := ask(w.outside, "tcp", "10.96.0.5:80")
				seen[got] = true
			}
			return len(seen) == 2
		})
		svc := dualService("web", "10.96.0.5", 30080)
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		w.setService(t, svc, false)
		eventually(t, "one endpoint is used", func() bool {
			seen := map[string]bool{}
			for range 20 {
				got, err := ask(w.outside, "tcp", "10.96.0.5:80")
				if err != nil {
					return false
				}
				seen[got] = true
			}
			return len(seen) == 1
		})
	})

	t.Run("an open UDP flow moves to the new endpoint", func(t *testing.T) {
		w.setService(t, dualService("dns", "10.96.0.53", 30053), true)
		w.setSlice(t, dualSlice("dns", "10.244.0.2"), true)
		eventually(t, "first endpoint", func() bool {
			got, _ := ask(w.outside, "udp", "10.96.0.53:80")
			return strings.HasPrefix(got, "A ")
		})
		var c net.Conn
		w.outside.do(t, func() (err error) {
			c, err = net.Dial("udp", "10.96.0.53:80")
			return err
		})
		defer c.Close()
		if got, err := exchange(c); err != nil || !strings.HasPrefix(got, "A ") {
			t.Fatalf("got %q, %v", got, err)
		}
		w.setSlice(t, dualSlice("dns", "10.244.0.3"), false)
		eventually(t, "second endpoint over the same socket", func() bool {
			got, _ := exchange(c)
			return strings.HasPrefix(got, "B ")
		})
	})

	t.Run("rules stay when the proxy stops, and go with Purge", func(t *testing.T) {
		w.stop()
		if got, err := ask(w.podB, "tcp", "10.96.0.53:80"); err != nil {
			t.Errorf("got %q, %v after the proxy stopped", got, err)
		}
		if err := w.proxy.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"nat", "filter"} {
			saved, err := iptables.Exec{Family: model.IPv4, NetNS: w.node.path()}.Save(t.Context(), table)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(saved, "MK-") {
				t.Errorf("left in table %s:\n%s", table, saved)
			}
		}
		if got := w.nft(t, "list", "tables"); strings.Contains(got, "minik8s-proxy") {
			t.Errorf("left of nftables:\n%s", got)
		}
	})
}

func TestRealHealthCheckNodePort(t *testing.T) {
	w := newWorld(t)
	svc := dualService("lb", "10.96.0.7", 30070)
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	svc.Spec.HealthCheckNodePort = 30071
	w.setService(t, svc, true)
	get := func() (code int, body map[string]any) {
		raw := ""
		err := namespace.Do(w.outside.path(), func() error {
			c, err := net.DialTimeout("tcp", "192.0.2.1:30071", time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
				return err
			}
			if _, err := fmt.Fprint(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
				return err
			}
			var b strings.Builder
			buf := make([]byte, 1024)
			for {
				n, err := c.Read(buf)
				b.Write(buf[:n])
				if err != nil {
					raw = b.String()
					return nil
				}
			}
		})
		if err != nil {
			return 0, nil
		}
		head, text, _ := strings.Cut(raw, "\r\n\r\n")
		_, _ = fmt.Sscanf(head, "HTTP/1.0 %d", &code) // what is no answer has no code
		_ = json.Unmarshal([]byte(text), &body)
		return code, body
	}
	eventually(t, "no endpoint here", func() bool { code, _ := get(); return code == http.StatusServiceUnavailable })
	w.setSlice(t, dualSlice("lb", "10.244.0.2", "10.244.0.3"), true)
	eventually(t, "two endpoints here", func() bool {
		code, body := get()
		return code == http.StatusOK && body["localEndpoints"] == 2.0 && body["serviceProxyHealthy"] == true
	})
}

// TestRealRoundRobin counts: each endpoint gets exactly its share of connections.
func TestRealRoundRobin(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*Config)) {
		t.Helper()
		w := newWorld(t, mode, func(c *Config) { c.Scheduler = backend.RoundRobin })
		serve(t, newPod(t, w.node, "podc", "10.244.0.4"), "C")
		w.setSlice(t, dualSlice("web", "10.244.0.2", "10.244.0.3", "10.244.0.4"), true)
		w.setService(t, dualService("web", "10.96.0.5", 30080), true)
		eventually(t, "the service answers", func() bool {
			_, err := ask(w.outside, "tcp", "10.96.0.5:80")
			return err == nil
		})
		got := map[string]int{}
		for range 30 {
			answer, err := ask(w.outside, "tcp", "10.96.0.5:80")
			if err != nil {
				t.Fatal(err)
			}
			got[answer[:1]]++
		}
		if got["A"] != 10 || got["B"] != 10 || got["C"] != 10 {
			t.Errorf("got %v, want each endpoint 10 times", got)
		}
	})
}

// TestRealIPv6_ClusterIP has packets go through what a Service without anything of its own is, for addresses of four words.
func TestRealIPv6_ClusterIP(t *testing.T) {
	machinetest.Root(t, "for network namespaces")
	for mode, make := range modes {
		t.Run(string(mode), func(t *testing.T) {
			node, pod := newSpace(t), newSpace(t)
			connect(t, node, "eth0", pod, "eth0")
			node.quick(t, "eth0")
			pod.quick(t, "eth0")
			node.link(t, "eth0", "fd01::1/64")
			pod.link(t, "eth0", "fd01::2/64", "fd01::3/64")
			node.route(t, "fd00::/112", "fd01::2", "eth0")
			serve(t, pod, "A")
			table := make(backend.Config{
				Cluster: "v6", Family: model.IPv6, NetNS: node.path(), MasqueradeMark: 1 << 14, ClusterCIDR: netip.MustParsePrefix("fd01::/64"),
			})
			slice := dualSlice("alone", "fd01::2", "fd01::3")
			slice.AddressType = discoveryv1.AddressTypeIPv6
			s := model.Build(model.IPv6, clusterService("alone", "fd00::7"), []*discoveryv1.EndpointSlice{slice}, model.Node{Name: "here"})
			if err := table.Apply(t.Context(), backend.Changes{s.Name: s}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "an answer", func() bool {
				got, err := ask(node, "tcp", "[fd00::7]:80")
				return err == nil && got == "A from fd01::1"
			})
		})
	}
}

// TestRealIPv6 loads the IPv6 rules of every feature with the real program.
func TestRealIPv6(t *testing.T) {
	machinetest.Root(t, "for network namespaces")
	machinetest.Programs(t, "ip6tables-restore")
	node := newSpace(t)
	commands := iptables.Exec{Family: model.IPv6, NetNS: node.path()}
	if _, err := commands.Save(t.Context(), "nat"); err != nil {
		machinetest.Lacks(t, "needs NAT for IPv6: %v", err)
	}
	lb := dualService("lb", "fd00::5", 30080)
	lb.Spec.Type = corev1.ServiceTypeLoadBalancer
	lb.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	lb.Spec.HealthCheckNodePort = 30081
	lb.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	lb.Spec.LoadBalancerSourceRanges = []string{"fd02::/64"}
	lb.Spec.ExternalIPs = []string{"fd03::9"}
	lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "fd03::1"}}
	lb.Spec.Ports = append(lb.Spec.Ports, corev1.ServicePort{Name: "s", Port: 81, NodePort: 30082, Protocol: corev1.ProtocolSCTP})
	slice := dualSlice("lb", "fd01::2", "fd01::3")
	slice.AddressType = discoveryv1.AddressTypeIPv6
	sctp, name, port := corev1.ProtocolSCTP, "s", int32(8081)
	slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &sctp, Port: &port})
	cfg := backend.Config{
		Cluster: "v6", Family: model.IPv6, MasqueradeMark: 1 << 14, ClusterCIDR: netip.MustParsePrefix("fd01::/64"),
		NodeIPs: []netip.Addr{netip.MustParseAddr("fd02::1")},
	}
	changes := backend.Changes{}
	for _, svc := range []*corev1.Service{lb, dualService("empty", "fd00::6", 30083)} {
		s := model.Build(model.IPv6, svc, []*discoveryv1.EndpointSlice{slice}, model.Node{Name: "here"})
		changes[s.Name] = s
	}
	table := iptables.New(commands, cfg)
	for range 2 {
		if err := table.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		if intact, err := table.Check(t.Context()); err != nil || !intact {
			t.Fatalf("intact %v, %v", intact, err)
		}
	}
	if err := table.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nat", "filter"} {
		if saved, err := commands.Save(t.Context(), name); err != nil || strings.Contains(saved, "MK-") {
			t.Errorf("left in table %s: %v\n%s", name, err, saved)
		}
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/health"
	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/iptables/fake"
)

func startFake(t *testing.T, kernel *fake.Tables, objects ...runtime.Object) (*Proxy, *clocktesting.FakeClock, *clientfake.Clientset) {
	t.Helper()
	client := clientfake.NewClientset(objects...)
	clk := clocktesting.NewFakeClock(time.Now())
	factory := informers.NewSharedInformerFactory(client, 0)
	p, err := New(Config{
		Cluster: "c", NodeName: "here", Informers: factory, Clock: clk,
		NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		NetNS:   ownSysctls(t),
		Backend: func(c backend.Config) backend.Backend { return iptables.New(kernel, c) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	factory.Start(ctx.Done())
	go func() { done <- p.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
	return p, clk, client
}

// ownSysctls keeps the sysctl off the machine that runs the test.
func ownSysctls(t *testing.T) string {
	t.Helper()
	return newSpace(t).path()
}

func TestProxy_HealsAfterFlush(t *testing.T) {
	kernel := fake.New()
	p, clk, _ := startFake(t, kernel, dualService("web", "10.96.0.5", 30080))
	written := func() bool {
		saved, err := kernel.Save(t.Context(), "filter")
		return err == nil && strings.Contains(saved, "10.96.0.5")
	}
	eventually(t, "rules", written)
	eventually(t, "healthy", func() bool { return p.Status().Healthy() })
	kernel.Flush()
	eventually(t, "rules again", func() bool {
		clk.Step(time.Second)
		return written()
	})
	jumps, err := kernel.List("nat", "PREROUTING")
	if err != nil || !strings.Contains(jumps, "-SERVICES") {
		t.Errorf("got %q, %v", jumps, err)
	}
}

func TestProxy_RetriesAndReportsFailure(t *testing.T) {
	kernel := fake.New()
	kernel.Fail(errors.New("no such table"))
	p, clk, client := startFake(t, kernel, dualService("web", "10.96.0.5", 30080))
	eventually(t, "loop waits", clk.HasWaiters)
	healthy := func() bool { return p.Status().Healthy() }
	if healthy() {
		t.Error("healthy although nothing could be written")
	}
	kernel.Fail(nil)
	again := func() bool {
		clk.Step(time.Second)
		return healthy()
	}
	eventually(t, "healthy after the failure ended", again)
	// What fails once is no reason to be sent no traffic any more; what goes on failing is.
	kernel.Fail(errors.New("no such table"))
	service := dualService("api", "10.96.0.6", 30081)
	if _, err := client.CoreV1().Services(service.Namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a change", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) > 0
	})
	if !healthy() {
		t.Error("not healthy at once")
	}
	const partial = `iptables_partial_restore_failures_total{ip_family="IPv4"} 1` + "\n"
	eventually(t, "a failure", func() bool {
		clk.Step(time.Second)
		return strings.Contains(measures(p), partial)
	})
	clk.Step(2 * p.config.SyncPeriod)
	if healthy() {
		t.Error("healthy although a change was not written for long")
	}
	kernel.Fail(nil)
	eventually(t, "healthy again", again)
	// The failures before and after that one were of everything.
	if got := measures(p); !strings.Contains(got, partial) {
		t.Error(got)
	}
}

func measures(p *Proxy) string { return get(p.metrics.Handler(), "/metrics", "").Body.String() }

// TestProxy_Measures: what upstream's measures of each family is measured of each family, and a node that nobody knows is not eligible.
func TestProxy_Measures(t *testing.T) {
	service := dualService("web", "10.96.0.5", 30080)
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	p, clk, client := startFake(t, fake.New(), service)
	healthz := func() string { return get(health.Handler(p.Status, p.metrics.Checked), "/healthz", "").Body.String() }
	eventually(t, "healthy", func() bool { return p.Status().Healthy() })
	if got := healthz(); !strings.Contains(got, `"nodeEligible":false,"healthy":true`) {
		t.Errorf("without a node: %s", got)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an eligible node", func() bool { return strings.Contains(healthz(), `"nodeEligible":true`) })
	slice := dualSlice("web", "10.1.0.2")
	slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: clk.Now().Add(-time.Second).Format(time.RFC3339Nano)}
	slice.Endpoints[0].NodeName = new("there")
	if _, err := client.DiscoveryV1().EndpointSlices(slice.Namespace).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`network_programming_duration_seconds_count{ip_family="IPv4"} 1`, `sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}`,
		`sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"}`, `proxy_healthz_total{code="503"}`,
		`sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 2`,
		`sync_proxy_rules_iptables_total{ip_family="IPv4",table="filter"}`, `sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"}`,
	} {
		eventually(t, want, func() bool {
			clk.Step(time.Second)
			return strings.Contains(measures(p), "\nkubeproxy_"+want)
		})
	}
	if err := client.DiscoveryV1().EndpointSlices(slice.Namespace).Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	const none = `no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 0`
	eventually(t, none, func() bool {
		clk.Step(time.Second)
		return strings.Contains(measures(p), none)
	})
}

// TestProxy_LocalPortInUse: a node port that another program has on the loopback address is answered when that has ended, also if
// nothing else changes.
func TestProxy_LocalPortInUse(t *testing.T) {
	kernel := fake.New()
	p, clk, client := startFake(t, kernel)
	const at = "127.0.0.1:30080"
	var other net.Listener
	err := namespace.Do(p.config.NetNS, func() (err error) {
		other, err = net.Listen("tcp", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slice, service := dualSlice("web", "10.1.0.2"), dualService("web", "10.96.0.5", 30080)
	if _, err := client.DiscoveryV1().EndpointSlices(slice.Namespace).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services(service.Namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the same port of the other protocol", func() bool {
		clk.Step(time.Second)
		return errors.Is(namespace.Do(p.config.NetNS, func() error {
			c, err := net.ListenPacket("udp", at)
			if err == nil {
				err = c.Close()
			}
			return err
		}), syscall.EADDRINUSE)
	})
	_ = other.Close()
	eventually(t, "an answer", func() bool {
		clk.Step(time.Second)
		return namespace.Do(p.config.NetNS, func() error {
			c, err := net.Dial("tcp", at)
			if err == nil {
				err = c.Close()
			}
			return err
		}) == nil
	})
}

// TestProxy_HealsWithPortInUse: rules that somebody takes away come back, also while another program has a node port on the loopback
// address for good.
func TestProxy_HealsWithPortInUse(t *testing.T) {
	kernel := fake.New()
	p, clk, client := startFake(t, kernel)
	var other net.Listener
	err := namespace.Do(p.config.NetNS, func() (err error) {
		other, err = net.Listen("tcp", "127.0.0.1:30080")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	slice, service := dualSlice("web", "10.1.0.2"), dualService("web", "10.96.0.5", 30080)
	if _, err := client.DiscoveryV1().EndpointSlices(slice.Namespace).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services(service.Namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	written := func() bool {
		clk.Step(time.Second)
		saved, err := kernel.Save(t.Context(), "nat")
		return err == nil && strings.Contains(saved, "10.1.0.2")
	}
	eventually(t, "rules", written)
	kernel.Flush()
	eventually(t, "rules again", written)
}

func TestConfig(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/64")
	tests := []struct {
		name     string
		config   Config
		bad      bool
		families int
	}{
		{name: "no cluster", bad: true},
		{name: "default", config: Config{Cluster: "c"}, families: 1},
		{name: "dual stack", config: Config{Cluster: "c", ClusterCIDRs: []netip.Prefix{v4, v6}}, families: 2},
		{name: "two of a family", config: Config{Cluster: "c", ClusterCIDRs: []netip.Prefix{v4, v4}}, bad: true},
		{name: "mode", config: Config{Cluster: "c", Mode: "ipvs"}, bad: true},
		{name: "scheduler", config: Config{Cluster: "c", Scheduler: "lc"}, bad: true},
		{name: "mark bit", config: Config{Cluster: "c", MasqueradeBit: 32}, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.config.complete()
			if (err != nil) != tt.bad {
				t.Fatalf("got %v", err)
			}
			if err == nil && len(tt.config.families()) != tt.families {
				t.Errorf("families %v", tt.config.families())
			}
		})
	}
}

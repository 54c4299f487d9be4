// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		all = append(all, netip.MustParseAddr(t))
	}
	return all
}

func service(name string, kind corev1.ServiceType, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{Type: kind}}
	s.Status.LoadBalancer.Ingress = ingress
	return s
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	proxied := corev1.LoadBalancerIPModeProxy
	got := addresses([]*corev1.Service{
		service("b", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.2"}, corev1.LoadBalancerIngress{IP: "2001:db8::1"}),
		service("a", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.1"}),
		service("the same by hand", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.1"}),
		service("not of the pool", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.100"}),
		service("name", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{Hostname: "example.com"}),
		service("proxied elsewhere", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.3", IPMode: &proxied}),
		service("type changed away", corev1.ServiceTypeClusterIP, corev1.LoadBalancerIngress{IP: "192.0.2.4"}),
	}, prefixes("192.0.2.0/29", "2001:db8::/125"))
	if want := addrs("192.0.2.1", "192.0.2.2", "2001:db8::1"); !slices.Equal(got, want) {
		t.Errorf("addresses are %v, want %v", got, want)
	}
}

// TestStart follows Services: an address is there while a Service has it, also if somebody takes it away, and one that was left
// by a process that was killed goes.
func TestStart(t *testing.T) {
	t.Parallel()
	n := namespacetest.New(t)
	pool := prefixes("192.0.2.0/29")
	if _, _, err := (machine{cluster: "a", pool: pool, netNS: n.Path()}).hold(addrs("192.0.2.5")); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	shared := informers.NewSharedInformerFactory(client, 0)
	h, err := New(Config{Cluster: "a", Pool: pool, Services: shared.Core().V1().Services(), NetNS: n.Path(), SyncPeriod: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Start(ctx) }()
	shared.Start(ctx.Done())
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
			if got, _ = onMachine(t, n); sameSet(want, got) {
				return
			}
		}
		t.Fatalf("%s: addresses are %v, want %v", what, got, want)
	}
	expect("what was left")
	services := client.CoreV1().Services("ns")
	for i := range 3 {
		s := service(fmt.Sprint("s", i), corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: fmt.Sprintf("192.0.2.%d", i+1)})
		if _, err := services.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect("three services", "192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32")
	if _, _, err := h.machine.hold(addrs("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	expect("two addresses were removed by somebody", "192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32")
	if err := services.Delete(ctx, "s1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("one was deleted", "192.0.2.1/32", "192.0.2.3/32")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	expect("they stay when the process ends", "192.0.2.1/32", "192.0.2.3/32")
}

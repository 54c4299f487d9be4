// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// Each node has an endpoint of its own, which is hinted for it alone, and ready if it answers.
func TestDNSEndpoints(t *testing.T) {
	node := func(name, pods string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods}}
	}
	own := dnsNode{"one", netip.MustParseAddr("10.244.0.1")}
	nodes := dnsNodes(own, []*corev1.Node{node("two", "10.244.1.0/24"), node("one", "10.244.0.0/24"), node("new", ""), node("six", "fd00::/64")})
	if len(nodes) != 2 || nodes[0] != own || nodes[1] != (dnsNode{"two", netip.MustParseAddr("10.244.1.1")}) {
		t.Fatalf("nodes %v", nodes)
	}
	endpoint := func(name, address string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: &name, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: name}}},
		}
	}
	want := []discoveryv1.Endpoint{endpoint("one", "10.244.0.1", true), endpoint("two", "10.244.1.1", false)}
	if diff := cmp.Diff(want, dnsEndpoints(nodes, []bool{true, false})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDNSPublisher_Upkeep: what pods find cluster DNS by comes again when somebody has deleted it, also where there is one node only.
func TestDNSPublisher_Upkeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes()
		p := &dnsPublisher{
			client: client, clusterIP: netip.MustParseAddr("10.96.0.10"), domain: "cluster.local", own: dnsNode{"one", netip.MustParseAddr("10.244.0.1")}, nodes: nodes,
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.run(ctx, nodes.Informer()) }()
		synctest.Wait()
		services, slices := client.CoreV1().Services(metav1.NamespaceSystem), client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem)
		for _, err := range []error{services.Delete(ctx, dnsService, metav1.DeleteOptions{}), slices.Delete(ctx, dnsService, metav1.DeleteOptions{})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * dnsUpkeep)
		synctest.Wait()
		if _, err := services.Get(ctx, dnsService, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := slices.Get(ctx, dnsService, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestDNSConfig_Allowed(t *testing.T) {
	if got, err := (DNSConfig{AllowFrom: []string{"192.0.2.0/24"}}).allowed(); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := (DNSConfig{AllowFrom: []string{"192.0.2.1"}}).allowed(); err == nil {
		t.Error("an address is no range")
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/service/ipallocator"
	"minik8s.io/minik8s/pkg/registry/core/service/ranges"
)

func TestPlanAddresses(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r, err := ipallocator.NewRange(netip.MustParsePrefix("10.0.0.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	svc := func(name string, ips ...string) corev1.Service {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: ips, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
		return s
	}
	address := func(ip, owner string, age time.Duration, change ...func(*networkingv1.IPAddress)) networkingv1.IPAddress {
		a := ipallocator.Address(netip.MustParseAddr(ip), types.NamespacedName{Namespace: "ns", Name: owner})
		a.CreationTimestamp = metav1.NewTime(now.Add(-age))
		for _, f := range change {
			f(a)
		}
		return *a
	}
	unlabelled := func(a *networkingv1.IPAddress) { a.Labels = nil }
	gateway := func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Resource = "gateways" }
	external := svc("a")
	external.Spec.Type = corev1.ServiceTypeExternalName
	for _, tc := range []struct {
		name           string
		services       []corev1.Service
		addresses      []networkingv1.IPAddress
		remove, create []string
		problems       int
	}{
		{name: "in order", services: []corev1.Service{svc("a", "10.0.0.1")}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", time.Hour)}},
		{name: "headless", services: []corev1.Service{svc("a", "None")}},
		{name: "missing", services: []corev1.Service{svc("a", "10.0.0.1")}, create: []string{"10.0.0.1"}},
		{name: "wrong parent", services: []corev1.Service{svc("a", "10.0.0.1")}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", time.Hour, gateway)}, remove: []string{"10.0.0.1"}, create: []string{"10.0.0.1"}},
		{name: "parent is gone", services: []corev1.Service{svc("a", "10.0.0.1")}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "b", time.Hour)}, remove: []string{"10.0.0.1"}, create: []string{"10.0.0.1"}},
		{name: "no labels", services: []corev1.Service{svc("a", "10.0.0.1")}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", time.Hour, unlabelled)}, remove: []string{"10.0.0.1"}, create: []string{"10.0.0.1"}},
		{name: "two services with an address", services: []corev1.Service{svc("a", "10.0.0.1"), svc("b", "10.0.0.1")}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "b", time.Hour)}, problems: 1},
		{name: "two services without", services: []corev1.Service{svc("a", "10.0.0.1"), svc("b", "10.0.0.1")}, create: []string{"10.0.0.1"}, problems: 1},
		{name: "out of range", services: []corev1.Service{svc("a", "10.0.1.1")}, problems: 1},
		{name: "orphan", addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", 61*time.Second)}, remove: []string{"10.0.0.1"}},
		{name: "young orphan", addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", 59*time.Second)}},
		{name: "somebody else's", addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", time.Hour, unlabelled, gateway)}},
		{name: "ours with another parent", addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", 0, gateway)}, remove: []string{"10.0.0.1"}},
		{name: "second address", services: []corev1.Service{svc("a", "10.0.0.1")}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", time.Hour), address("10.0.0.2", "a", 5*time.Second)}, remove: []string{"10.0.0.2"}},
		{name: "young second address", services: []corev1.Service{svc("a", "10.0.0.1")}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", time.Hour), address("10.0.0.2", "a", 4*time.Second)}},
		{name: "about to have an address", services: []corev1.Service{external}, addresses: []networkingv1.IPAddress{address("10.0.0.1", "a", 59*time.Second)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := planAddresses(tc.services, tc.addresses, []ipallocator.Range{r}, now)
			var remove, create []string
			for _, a := range p.remove {
				remove = append(remove, a.Name)
			}
			for _, a := range p.create {
				create = append(create, a.Name)
			}
			if !slices.Equal(remove, tc.remove) || !slices.Equal(create, tc.create) || len(p.problems) != tc.problems {
				t.Errorf("removes %v, makes %v, problems %q; want %v, %v, %d", remove, create, p.problems, tc.remove, tc.create, tc.problems)
			}
		})
	}
}

func TestRepair(t *testing.T) {
	// The configuration of the server is seen from inside a resource.
	var served registry.Config
	spy := *Resource
	configured := spy.Configure
	spy.Configure = func(s *registry.Store[*corev1.Service], c registry.Config) error {
		served = c
		return configured(s, c)
	}
	g := group
	g.Versions = []registry.Version{{Name: "v1", Resources: []registry.Descriptor{&spy}}}
	client := kubernetes.NewForConfigOrDie(serve(t, registry.Config{}, g))
	kept := web()
	kept.Spec.Type = corev1.ServiceTypeNodePort
	kept, err := client.CoreV1().Services("default").Create(t.Context(), kept, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	services, err := served.Stores.Get(Resource.GroupResource())
	if err != nil {
		t.Fatal(err)
	}
	store, err := served.Stores.Get(schema.GroupResource{Resource: "ranges"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAllocators(served, ranges.FromStore(store), lister(services))
	if err != nil {
		t.Fatal(err)
	}
	// A server takes an address and a port and dies, and the address of the service that is there has been deleted.
	leaked, err := a.ips.AllocateNext(t.Context(), types.NamespacedName{Namespace: "default", Name: "never"}, corev1.IPv4Protocol, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ports.AllocateNext(t.Context(), 1, nil, false); err != nil {
		t.Fatal(err)
	}
	addresses := client.NetworkingV1().IPAddresses()
	before, err := addresses.Get(t.Context(), kept.Spec.ClusterIP, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := addresses.Delete(t.Context(), kept.Spec.ClusterIP, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Now())
	r := NewRepair(served)
	r.clock = clock
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		clock.Step(repairInterval)
		ports, err := a.ports.Range().Taken(ctx)
		if err != nil || len(ports) != 1 {
			return false, err
		}
		if _, err := addresses.Get(ctx, leaked.String(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return false, err
		}
		_, err = addresses.Get(ctx, kept.Spec.ClusterIP, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("not repaired: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("repair ended with %v", err)
	}
	if err := a.ports.Allocate(t.Context(), kept.Spec.Ports[0].NodePort, false); err == nil {
		t.Error("repair freed a port in use")
	}
	after, err := addresses.Get(t.Context(), kept.Spec.ClusterIP, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || !cmp.Equal(before.Labels, after.Labels) {
		t.Errorf("the IPAddress has changed:\n%s", diff)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/service/ranges"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestRepair_FreesLeaks(t *testing.T) {
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
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, g)).CoreV1().Services("default")
	kept := web()
	kept.Spec.Type = corev1.ServiceTypeNodePort
	kept, err := client.Create(t.Context(), kept, metav1.CreateOptions{})
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
	// A server takes an address and a port and dies.
	if _, err := a.ips[corev1.IPv4Protocol].AllocateNext(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ports.AllocateNext(t.Context(), false); err != nil {
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
		ips, err := a.ips[corev1.IPv4Protocol].Range().Taken(ctx)
		if err != nil {
			return false, err
		}
		ports, err := a.ports.Range().Taken(ctx)
		return len(ips) == 1 && len(ports) == 1, err
	})
	if err != nil {
		t.Errorf("leaks were not freed: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("repair ended with %v", err)
	}
	if err := a.ports.Allocate(t.Context(), kept.Spec.Ports[0].NodePort, false); err == nil {
		t.Error("repair freed a port in use")
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

// expect checks the addresses of Services, and that who has one has the finalizer. "gone" stands for no object.
func expect(want map[string]string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		for name, ip := range want {
			var s corev1.Service
			err := c.Get(ctx, client.ObjectKey{Namespace: "ns", Name: name}, &s)
			if ip == "gone" && apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return err
			}
			got := ""
			if in := s.Status.LoadBalancer.Ingress; len(in) > 0 {
				got = in[0].IP
			}
			if got != ip || slices.Contains(s.Finalizers, Finalizer) != (ip != "") {
				return fmt.Errorf("service %s has %q and finalizers %v, want %q", name, got, s.Finalizers, ip)
			}
		}
		return nil
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		services []client.Object
		want     map[string]string
	}{
		{"given", []client.Object{service("a", 1), service("b", 2), service("c", 3)}, map[string]string{"a": "192.0.2.1", "b": "192.0.2.2", "c": "192.0.2.3"}},
		{"type changed away", []client.Object{service("a", 1, has("192.0.2.1"), kind(corev1.ServiceTypeClusterIP))}, map[string]string{"a": ""}},
		{"deleted, and another one waits for what it had", []client.Object{
			service("a", 1, has("192.0.2.1"), terminating), service("b", 2, asks("192.0.2.1")),
		}, map[string]string{"a": "gone", "b": "192.0.2.1"}},
		{"the same by hand", []client.Object{service("a", 1, has("192.0.2.1")), service("b", 2, has("192.0.2.1"))}, map[string]string{"a": "192.0.2.1", "b": "192.0.2.2"}},
		{"the pool has changed", []client.Object{service("a", 1, has("203.0.113.1")), service("b", 2, has("203.0.113.2"))}, map[string]string{"a": "192.0.2.1", "b": "192.0.2.2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			controllertest.Run(t, controllertest.Case{
				Objects: tc.services, Request: pool, Everything: true,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Events: &record.FakeRecorder{}, Pool: small}
				},
				Want: expect(tc.want),
			})
		})
	}
}

// Events are upstream's, and a problem is told once, until it is another.
func TestReconcile_Events(t *testing.T) {
	t.Parallel()
	const failed = "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: "
	ensured := []string{"Normal EnsuringLoadBalancer Ensuring load balancer", "Normal EnsuredLoadBalancer Ensured load balancer"}
	for _, tc := range []struct {
		name    string
		service *corev1.Service
		want    []string
	}{
		{"given", service("a", 1), ensured},
		{"settled", service("a", 1, has("192.0.2.1")), nil},
		{"freed", service("a", 1, has("192.0.2.1"), kind(corev1.ServiceTypeClusterIP)),
			[]string{"Normal DeletingLoadBalancer Deleting load balancer", "Normal DeletedLoadBalancer Deleted load balancer"}},
		{"cannot be given", service("a", 1, asks("203.0.113.1")), []string{ensured[0],
			failed + "the requested address 203.0.113.1 is not in the pool 192.0.2.0/29, 2001:db8::/125: ask for one of it, or change loadBalancer.pool in the cluster's --config file"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			events := record.NewFakeRecorder(10)
			c := statusTakesMetadata{controllertest.NewClientBuilder().WithObjects(tc.service).Build()}
			r := &Reconciler{Client: c, Events: events, Pool: small}
			for range 3 {
				if _, err := r.Reconcile(t.Context(), pool); err != nil {
					t.Fatal(err)
				}
			}
			close(events.Events)
			var got []string
			for e := range events.Events {
				got = append(got, e)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// One Service that cannot be written holds up no other.
func TestReconcile_OneFails(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	under := controllertest.NewClientBuilder().WithObjects(service("a", 1), service("b", 2)).Build()
	events := record.NewFakeRecorder(10)
	r := &Reconciler{Client: refuses{statusTakesMetadata{under}, "a", refused}, Events: events, Pool: small}
	if _, err := r.Reconcile(t.Context(), pool); !errors.Is(err, refused) {
		t.Fatalf("error is %v", err)
	}
	if err := expect(map[string]string{"a": "", "b": "192.0.2.2"})(t.Context(), under); err != nil {
		t.Error(err)
	}
	<-events.Events
	if got, want := <-events.Events, "Normal EnsuringLoadBalancer Ensuring load balancer"; got == want {
		t.Error("who could not be written is not told")
	}
}

// statusTakesMetadata lets a write of the status change finalizers, as an API server does and the fake client does not.
type statusTakesMetadata struct{ client.WithWatch }

func (c statusTakesMetadata) Status() client.SubResourceWriter { return whole{c.WithWatch.Status(), c} }

type whole struct {
	client.SubResourceWriter
	c client.Client
}

func (w whole) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return controllertest.PatchStatus(ctx, w.c, obj, patch)
}

// refuses fails to write one Service.
type refuses struct {
	statusTakesMetadata
	name string
	err  error
}

func (r refuses) Status() client.SubResourceWriter { return whole{nil, r} }

func (r refuses) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if obj.GetName() == r.name {
		return r.err
	}
	return r.WithWatch.Patch(ctx, obj, patch, opts...)
}

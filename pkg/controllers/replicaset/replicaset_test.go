// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/internal/replicas"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func replicaSet(replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "rs-uid", Generation: 3},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
}

func pod(name string, owner types.UID, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: owner, Controller: new(true), BlockOwnerDeletion: new(true)}}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func ready(since time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
	}
}

func reconciler(c client.Client, events record.EventRecorder) *Reconciler {
	return &Reconciler{Client: c, Live: controllertest.Live(c), Events: events, Clock: clocktesting.NewFakePassiveClock(now)}
}

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}

func TestReconciler(t *testing.T) {
	relabeled := pod("foreign-now", "rs-uid", func(p *corev1.Pod) { p.Labels["app"] = "other" })
	tests := []struct {
		name    string
		objects []client.Object
		pods    int
		// kept are pods that must still be owned at the end.
		kept []string
	}{
		{name: "from nothing", objects: []client.Object{replicaSet(3)}, pods: 3},
		{name: "scale down", objects: []client.Object{replicaSet(1), pod("a", "rs-uid"), pod("b", "rs-uid", ready(now)), pod("c", "rs-uid")}, pods: 1, kept: []string{"b"}},
		{name: "adopt and release", objects: []client.Object{replicaSet(2), pod("orphan", ""), relabeled, pod("other", "other-uid")}, pods: 2, kept: []string{"orphan"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New:     func(c client.Client) reconcile.Reconciler { return reconciler(c, &record.FakeRecorder{}) },
				Want: func(ctx context.Context, c client.Client) error {
					var list corev1.PodList
					if err := c.List(ctx, &list); err != nil {
						return err
					}
					owned := map[string]bool{}
					for _, p := range list.Items {
						if ref := metav1.GetControllerOf(&p); ref != nil && ref.UID == "rs-uid" {
							owned[p.Name] = true
						}
					}
					for _, name := range tt.kept {
						if !owned[name] {
							return fmt.Errorf("%q is not owned, %v are", name, owned)
						}
					}
					var rs appsv1.ReplicaSet
					if err := c.Get(ctx, request.NamespacedName, &rs); err != nil {
						return err
					}
					if len(owned) != tt.pods || rs.Status.Replicas != int32(tt.pods) || rs.Status.ObservedGeneration != 3 {
						return fmt.Errorf("owns %v, status %+v", owned, rs.Status)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Events(t *testing.T) {
	quota := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
	tests := []struct {
		name    string
		objects []client.Object
		fail    error
		event   string
		status  *appsv1.ReplicaSetCondition
	}{
		{name: "create", objects: []client.Object{replicaSet(1)}, event: "Normal SuccessfulCreate Created pod: web-"},
		{name: "delete", objects: []client.Object{replicaSet(0), pod("a", "rs-uid")}, event: "Normal SuccessfulDelete Deleted pod: a"},
		{
			name: "quota", objects: []client.Object{replicaSet(1)}, fail: quota, event: "Warning FailedCreate Error creating: ",
			status: &appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: quota.Error()},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			store := controllertest.NewClientBuilder().WithObjects(tt.objects...).WithStatusSubresource(&appsv1.ReplicaSet{}).Build()
			c := interceptor.NewClient(store, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if tt.fail != nil {
						return tt.fail
					}
					return c.Create(ctx, obj, opts...)
				},
			})
			_, err := reconciler(c, events).Reconcile(t.Context(), request)
			if (err != nil) != (tt.fail != nil) {
				t.Fatalf("error %v", err)
			}
			if got := <-events.Events; !strings.HasPrefix(got, tt.event) {
				t.Errorf("event %q, want %q", got, tt.event)
			}
			var rs appsv1.ReplicaSet
			if err := c.Get(t.Context(), request.NamespacedName, &rs); err != nil {
				t.Fatal(err)
			}
			if tt.status != nil {
				if len(rs.Status.Conditions) != 1 {
					t.Fatalf("conditions %v", rs.Status.Conditions)
				}
				rs.Status.Conditions[0].LastTransitionTime = metav1.Time{}
				if diff := cmp.Diff(*tt.status, rs.Status.Conditions[0]); diff != "" {
					t.Errorf("condition (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestStatus(t *testing.T) {
	rs := replicaSet(4)
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}
	counts := replicas.Counts{Replicas: 4, FullyLabeled: 3, Ready: 2, Available: 1, Terminating: 2}
	want := appsv1.ReplicaSetStatus{
		Replicas: 4, FullyLabeledReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 1, ObservedGeneration: 3,
		TerminatingReplicas: ptr.To[int32](2), Conditions: []appsv1.ReplicaSetCondition{},
	}
	if diff := cmp.Diff(want, Status(rs, counts, nil, now)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

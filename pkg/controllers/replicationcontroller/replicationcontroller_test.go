// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicationcontroller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/internal/replicas"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}
)

func controller(replicas int32) *corev1.ReplicationController {
	labels := map[string]string{"app": "web"}
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "rc-uid", Generation: 3},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: new(replicas),
			Selector: labels,
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
}

func pod(name string, owner types.UID, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ReplicationController", Name: "web", UID: owner, Controller: new(true)}}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestReconciler(t *testing.T) {
	ready := func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	}
	relabeled := func(p *corev1.Pod) { p.Labels["app"] = "other" }
	tests := []struct {
		name    string
		objects []client.Object
		pods    int
		// kept are pods that must still be owned at the end.
		kept []string
	}{
		{name: "from nothing", objects: []client.Object{controller(3)}, pods: 3},
		{name: "scale down", objects: []client.Object{controller(1), pod("a", "rc-uid"), pod("b", "rc-uid", ready), pod("c", "rc-uid")}, pods: 1, kept: []string{"b"}},
		{name: "adopt and release", objects: []client.Object{controller(2), pod("orphan", ""), pod("free", "rc-uid", relabeled), pod("other", "other-uid")}, pods: 2, kept: []string{"orphan"}},
		{name: "pod has failed", objects: []client.Object{controller(1), pod("a", "rc-uid", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, pods: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Live: controllertest.Live(c), Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(now)}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var list corev1.PodList
					if err := c.List(ctx, &list); err != nil {
						return err
					}
					owned, active := map[string]bool{}, 0
					for i := range list.Items {
						p := &list.Items[i]
						if ref := metav1.GetControllerOf(p); ref != nil && ref.UID == "rc-uid" {
							owned[p.Name] = true
							if pods.IsActive(p) {
								active++
							}
						}
					}
					for _, name := range tt.kept {
						if !owned[name] {
							return fmt.Errorf("%q is not owned, %v are", name, owned)
						}
					}
					var rc corev1.ReplicationController
					if err := c.Get(ctx, request.NamespacedName, &rc); err != nil {
						return err
					}
					if len(owned) != tt.pods || rc.Status.Replicas != int32(active) || rc.Status.ObservedGeneration != 3 {
						return fmt.Errorf("owns %v, status %+v", owned, rc.Status)
					}
					return nil
				},
			})
		})
	}
}

func TestStatus(t *testing.T) {
	rc := controller(3)
	got := Status(rc, replicas.Counts{Replicas: 4, FullyLabeled: 3, Ready: 2, Available: 1, Terminating: 5}, errors.New("no"), now)
	want := corev1.ReplicationControllerStatus{
		Replicas: 4, FullyLabeledReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 1, ObservedGeneration: 3,
		Conditions: []corev1.ReplicationControllerCondition{{
			Type: corev1.ReplicationControllerReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now), Reason: "FailedDelete", Message: "no",
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestSelectorOf_AbsentMatchesNothing(t *testing.T) {
	rc := controller(1)
	rc.Spec.Selector = nil
	selector, err := selectorOf(rc)
	if err != nil || selector.Matches(nil) {
		t.Errorf("selector %v, error %v", selector, err)
	}
}

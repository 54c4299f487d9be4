// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podgroupprotection

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func pod(group string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "pod"},
		Spec:       corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &group}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func group(deleted *metav1.Time, finalizers ...string) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", DeletionTimestamp: deleted, Finalizers: finalizers}}
}

var (
	now     = metav1.Now()
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "g"}}
)

// finalizers are those of the group, none if it is gone.
func finalizers(ctx context.Context, c client.Client) ([]string, error) {
	var g schedulingv1beta1.PodGroup
	err := c.Get(ctx, request.NamespacedName, &g)
	return g.Finalizers, client.IgnoreNotFound(err)
}

func TestReconcile(t *testing.T) {
	const other = "a/b"
	for _, tc := range []struct {
		name  string
		group *schedulingv1beta1.PodGroup
		pod   *corev1.Pod
		want  []string
	}{
		{"its pod goes", group(&now, Finalizer), pod("g", corev1.PodRunning), nil},
		{"its pod has ended", group(&now, Finalizer, other), pod("g", corev1.PodFailed), []string{other}},
		{"pods of another group", group(&now, Finalizer), pod("other", corev1.PodRunning), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{tc.pod, tc.group},
				Request: request,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Live: controllertest.Live(c)}
				},
				World: func(ctx context.Context, c client.Client) error {
					p := pod("g", corev1.PodRunning)
					if err := c.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil || p.Status.Phase != corev1.PodRunning {
						return client.IgnoreNotFound(err)
					}
					return c.Delete(ctx, p)
				},
				Want: func(ctx context.Context, c client.Client) error {
					left, err := finalizers(ctx, c)
					if err == nil && !slices.Equal(left, tc.want) {
						err = fmt.Errorf("finalizers are %v, want %v", left, tc.want)
					}
					return err
				},
			})
		})
	}
}

func TestReconcile_Stays(t *testing.T) {
	const other = "a/b"
	for _, tc := range []struct {
		name         string
		group        *schedulingv1beta1.PodGroup
		cached, live *corev1.Pod
	}{
		{"alive, without pods", group(nil, Finalizer), pod("other", corev1.PodRunning), nil},
		{"alive, and nobody has protected it", group(nil, other), pod("g", corev1.PodRunning), nil},
		{"used", group(&now, Finalizer), pod("g", corev1.PodRunning), nil},
		{"used, what the cache does not know", group(&now, Finalizer), pod("other", corev1.PodRunning), pod("g", corev1.PodPending)},
		{"somebody else's", group(&now, other), pod("other", corev1.PodRunning), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := controllertest.NewClientBuilder().WithObjects(tc.group, tc.cached).Build()
			r := &Reconciler{Client: c, Live: c}
			if tc.live != nil {
				r.Live = controllertest.NewClientBuilder().WithObjects(tc.live).Build()
			}
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			left, err := finalizers(t.Context(), c)
			if err != nil || !slices.Equal(left, tc.group.Finalizers) {
				t.Errorf("finalizers are %v, want %v (%v)", left, tc.group.Finalizers, err)
			}
		})
	}
}

func TestLeft(t *testing.T) {
	running, ended, another := pod("g", corev1.PodRunning), pod("g", corev1.PodSucceeded), pod("g", corev1.PodRunning)
	another.UID = "another"
	p := left()
	for _, tc := range []struct {
		name      string
		got, want bool
	}{
		{"made", p.Create(event.CreateEvent{Object: running}), false},
		{"found ended", p.Create(event.CreateEvent{Object: ended}), true},
		{"changed", p.Update(event.UpdateEvent{ObjectOld: running, ObjectNew: running}), false},
		{"ends", p.Update(event.UpdateEvent{ObjectOld: running, ObjectNew: ended}), true},
		{"made anew", p.Update(event.UpdateEvent{ObjectOld: running, ObjectNew: another}), true},
		{"deleted", p.Delete(event.DeleteEvent{Object: running}), true},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, tc.got, tc.want)
		}
	}
	if got := groupOf(t.Context(), running); len(got) != 1 || got[0].String() != "ns/g" {
		t.Errorf("the group of the pod is %v", got)
	}
	if got := groupOf(t.Context(), &corev1.Pod{}); got != nil {
		t.Errorf("a pod without group has %v", got)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

func TestEvict(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "first"}}
	marked := pod.DeepCopy()
	marked.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "Test"}}
	successor := pod.DeepCopy()
	successor.UID = "second"
	tests := []struct {
		name  string
		pod   *corev1.Pod
		world func(client.WithWatch) client.WithWatch
		// fails says that the eviction has to be looked at again.
		fails bool
		stays bool
	}{
		{name: "there", pod: pod},
		{name: "marked before", pod: marked},
		{name: "gone", pod: pod, world: func(client.WithWatch) client.WithWatch {
			return controllertest.NewClientBuilder().Build()
		}},
		{name: "replaced", pod: pod, stays: true, world: func(c client.WithWatch) client.WithWatch {
			return controllertest.Replaced(c, successor)
		}},
		{name: "marked before, replaced", pod: marked, stays: true, fails: true, world: func(c client.WithWatch) client.WithWatch {
			return controllertest.Replaced(c, successor)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := controllertest.NewClientBuilder().WithObjects(tt.pod).WithStatusSubresource(&corev1.Pod{}).Build()
			if tt.world != nil {
				c = tt.world(c)
			}
			err := pods.Evict(t.Context(), c, tt.pod, corev1.PodCondition{Reason: "Test"})
			if (err != nil) != tt.fails {
				t.Errorf("got %v, fails: %t", err, tt.fails)
			}
			var left corev1.Pod
			err = c.Get(t.Context(), client.ObjectKeyFromObject(pod), &left)
			if tt.stays != (err == nil) || (err != nil && !apierrors.IsNotFound(err)) {
				t.Fatalf("stays: %t, but: %v", tt.stays, err)
			}
			if tt.stays && (left.UID != "second" || len(left.Status.Conditions) > 0) {
				t.Errorf("there is %s with the conditions %v", left.UID, left.Status.Conditions)
			}
		})
	}
}

// Who held the pod by a finalizer, or counts why pods went, finds the last reason that it had.
func TestEvict_Condition(t *testing.T) {
	before, now := metav1.NewTime(time.Date(2026, 5, 1, 11, 0, 0, 0, time.UTC)), metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	for _, tt := range []struct {
		name   string
		status corev1.ConditionStatus // of the condition that the pod has
		want   metav1.Time
	}{
		{"not marked", "", now},
		{"for another reason", corev1.ConditionTrue, before},
		{"not marked any more", corev1.ConditionFalse, now},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "first", Finalizers: []string{"test/stay"}}}
			if tt.status != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: tt.status, Reason: "Before", LastTransitionTime: before}}
			}
			c := controllertest.NewClientBuilder().WithObjects(pod).WithStatusSubresource(&corev1.Pod{}).Build()
			if err := pods.Evict(t.Context(), c, pod, corev1.PodCondition{Reason: "Test", LastTransitionTime: now}); err != nil {
				t.Fatal(err)
			}
			var left corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &left); err != nil {
				t.Fatal(err)
			}
			want := []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "Test", LastTransitionTime: tt.want}}
			if diff := cmp.Diff(want, left.Status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

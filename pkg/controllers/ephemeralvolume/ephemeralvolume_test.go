// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ephemeralvolume

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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p"}}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			ephemeralVolume("a"), ephemeralVolume("b"),
		}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func ephemeralVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": name}, Annotations: map[string]string{"n": name}},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast")},
		},
	}}}
}

func TestClaim(t *testing.T) {
	p := pod()
	want := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p-a", Labels: map[string]string{"l": "a"}, Annotations: map[string]string{"n": "a"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: new(true), BlockOwnerDeletion: new(true)}},
		},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast")},
	}
	if diff := cmp.Diff(want, Claim(p, &p.Spec.Volumes[1])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReconciler(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{pod()},
		Request: request,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Events: &record.FakeRecorder{}}
		},
		Want: func(ctx context.Context, c client.Client) error {
			for _, name := range []string{"p-a", "p-b"} {
				claim := &corev1.PersistentVolumeClaim{}
				if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: name}, claim); err != nil {
					return err
				}
				if !metav1.IsControlledBy(claim, pod()) {
					return errors.New("the pod does not own it")
				}
			}
			var list corev1.PersistentVolumeClaimList
			if err := c.List(ctx, &list); err != nil || len(list.Items) != 2 {
				return fmt.Errorf("%d claims, error %w", len(list.Items), err)
			}
			return nil
		},
	})
}

func TestReconcile_LeavesAlone(t *testing.T) {
	deleted := func(p *corev1.Pod) {
		p.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
		p.Finalizers = []string{"test/stay"}
	}
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-a"}}
	tests := []struct {
		name    string
		objects []client.Object
		event   string
		claims  int
	}{
		{"a pod that is going", []client.Object{pod(deleted)}, "", 0},
		{"a claim of the name", []client.Object{pod(), foreign}, "Warning FailedBinding ephemeral volume a: PVC ns/p-a was not created for pod ns/p (pod is not owner)", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			c := controllertest.NewClientBuilder().WithObjects(tt.objects...).Build()
			if _, err := (&Reconciler{Client: c, Events: events}).Reconcile(t.Context(), request); (err != nil) != (tt.event != "") {
				t.Errorf("error %v", err)
			}
			close(events.Events)
			if got := <-events.Events; got != tt.event {
				t.Errorf("event %q", got)
			}
			var list corev1.PersistentVolumeClaimList
			if err := c.List(t.Context(), &list); err != nil || len(list.Items) != tt.claims {
				t.Errorf("%d claims, error %v", len(list.Items), err)
			}
		})
	}
}

func TestUses(t *testing.T) {
	for name, want := range map[string]bool{"p-a": true, "p-b": true, "p-empty": false, "q-a": false} {
		if got := uses(pod(), name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if uses(pod(func(p *corev1.Pod) { p.Spec.Volumes = nil }), "p-a") {
		t.Error("a pod without volumes uses a claim")
	}
}

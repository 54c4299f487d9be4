// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func website(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "site", Namespace: "default", UID: "u1", Labels: map[string]string{websiteLabel: "true"}},
		Data:       map[string]string{"index.html": "hello"},
	}
	if change != nil {
		change(c)
	}
	return c
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		site     *corev1.ConfigMap
		replicas *int32 // nil: nothing is made
		events   int
	}{
		{"one replica by default", website(nil), new(int32(1)), 1},
		{"as annotated", website(func(c *corev1.ConfigMap) { c.Annotations = map[string]string{replicasAnnotation: "3"} }), new(int32(3)), 1},
		{"nonsense is told", website(func(c *corev1.ConfigMap) { c.Annotations = map[string]string{replicasAnnotation: "many"} }), nil, 1},
		{"negative is told", website(func(c *corev1.ConfigMap) { c.Annotations = map[string]string{replicasAnnotation: "-1"} }), nil, 1},
		{"not a web site", website(func(c *corev1.ConfigMap) { c.Labels = nil }), nil, 0},
		{"gone", nil, nil, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
			if test.site != nil {
				builder = builder.WithObjects(test.site)
			}
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler{Client: builder.Build(), Recorder: recorder, Image: "image"}
			request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "site"}}
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if len(recorder.Events) != test.events {
				t.Errorf("got %d events, want %d", len(recorder.Events), test.events)
			}
			var d appsv1.Deployment
			err := r.Client.Get(t.Context(), request.NamespacedName, &d)
			if test.replicas == nil {
				if err == nil {
					t.Error("a deployment was made")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.replicas, d.Spec.Replicas); diff != "" {
				t.Error(diff)
			}
			var s corev1.Service
			if err := r.Client.Get(t.Context(), request.NamespacedName, &s); err != nil {
				t.Fatal(err)
			}
			for _, owned := range []client.Object{&d, &s} {
				if owner := metav1.GetControllerOf(owned); owner == nil || owner.UID != test.site.UID {
					t.Errorf("%T has owner %v", owned, owner)
				}
			}

			// Reconciling again changes nothing.
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			before := d.ResourceVersion
			if err := r.Client.Get(t.Context(), request.NamespacedName, &d); err != nil || d.ResourceVersion != before {
				t.Errorf("the deployment was written again: %v", err)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		a, b map[string]string
		same bool
	}{
		{"same", map[string]string{"a": "1", "b": "2"}, map[string]string{"b": "2", "a": "1"}, true},
		{"other content", map[string]string{"a": "1"}, map[string]string{"a": "2"}, false},
		{"boundaries count", map[string]string{"a": "b"}, map[string]string{"ab": ""}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if same := digest(test.a) == digest(test.b); same != test.same {
				t.Errorf("same: %t", same)
			}
		})
	}
}

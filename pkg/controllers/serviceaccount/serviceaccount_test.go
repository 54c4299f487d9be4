// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconciler(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "ns"},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}},
		Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "ns"}},
		New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c} },
		Want: func(ctx context.Context, c client.Client) error {
			return c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: Name}, &corev1.ServiceAccount{})
		},
	})
}

func TestReconcile_TerminatingNamespace(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "ns"},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}).Build()
	r := &Reconciler{Client: c}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "ns"}}); err != nil {
		t.Fatal(err)
	}
	var list corev1.ServiceAccountList
	if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 0 {
		t.Errorf("accounts %v, error %v", list.Items, err)
	}
}

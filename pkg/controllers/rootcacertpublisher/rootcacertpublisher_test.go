// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rootcacertpublisher

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconciler(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	tests := []struct {
		name    string
		objects []client.Object
	}{
		{name: "missing", objects: []client.Object{ns}},
		{name: "changed", objects: []client.Object{ns, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: ConfigMapName},
			Data:       map[string]string{Key: "old", "other": "x"},
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "ns"}},
				New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c, RootCA: []byte("PEM")} },
				Want: func(ctx context.Context, c client.Client) error {
					var cm corev1.ConfigMap
					if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: ConfigMapName}, &cm); err != nil {
						return err
					}
					if len(cm.Data) != 1 || cm.Data[Key] != "PEM" || cm.Annotations[descriptionAnnotation] != description {
						return fmt.Errorf("published %v, annotations %v", cm.Data, cm.Annotations)
					}
					return nil
				},
			})
		})
	}
}

// Somebody may say in other words what the ConfigMap is for.
func TestReconciler_OtherDescription(t *testing.T) {
	c := controllertest.NewClientBuilder().WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: ConfigMapName, Annotations: map[string]string{descriptionAnnotation: "ours"}},
			Data:       map[string]string{Key: "PEM"},
		}).Build()
	r := &Reconciler{Client: c, RootCA: []byte("PEM")}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "ns"}}); err != nil {
		t.Fatal(err)
	}
	var cm corev1.ConfigMap
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: ConfigMapName}, &cm); err != nil {
		t.Fatal(err)
	}
	if got := cm.Annotations[descriptionAnnotation]; got != "ours" {
		t.Errorf("the description is %q", got)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

var group = registry.Group{
	AddToScheme: corev1.AddToScheme,
	Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{Resource}}},
}

func TestResource(t *testing.T) {
	registrytest.Run(t, stored, registrytest.Case[*corev1.Namespace]{
		Group:      &group,
		LongDelete: true,
		Valid: func() *corev1.Namespace {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		},
		Update: func(n *corev1.Namespace) { n.Labels = map[string]string{"a": "b"} },
		StatusUpdate: func(n *corev1.Namespace) {
			n.Status.Conditions = []corev1.NamespaceCondition{{Type: "T", Status: "True"}}
		},
		Invalid: []registrytest.Invalid[*corev1.Namespace]{
			{Name: "bad name", Mutate: func(n *corev1.Namespace) { n.Name = "a.b" }, Field: "metadata.name"},
			{Name: "bad finalizer", Mutate: func(n *corev1.Namespace) { n.Spec.Finalizers = []corev1.FinalizerName{"x"} }, Field: "spec.finalizers"},
		},
		Row: []any{"n", "Active"},
	})
}

func TestDelete(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, group)).CoreV1().Namespaces()
	ctx := t.Context()
	made, err := client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Labels[corev1.LabelMetadataName] != "doomed" || made.Status.Phase != corev1.NamespaceActive ||
		len(made.Spec.Finalizers) != 1 || made.Spec.Finalizers[0] != corev1.FinalizerKubernetes {
		t.Fatalf("created %+v", made)
	}
	err = client.Delete(ctx, "doomed", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new("1")}})
	if !apierrors.IsConflict(err) {
		t.Errorf("delete of another version: %v, want conflict", err)
	}
	if err := client.Delete(ctx, "doomed", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Get(ctx, "doomed", metav1.GetOptions{}); err != nil || n.DeletionTimestamp != nil {
		t.Fatalf("after a dry run: %v, %v", n.DeletionTimestamp, err)
	}
	for range 2 { // the second changes nothing
		if err := client.Delete(ctx, "doomed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := client.Get(ctx, "doomed", metav1.GetOptions{})
	if err != nil || n.DeletionTimestamp == nil || n.Status.Phase != corev1.NamespaceTerminating {
		t.Fatalf("after delete: %+v, %v", n, err)
	}
	// The main resource cannot touch spec.finalizers.
	n.Spec.Finalizers = nil
	if n, err = client.Update(ctx, n, metav1.UpdateOptions{}); err != nil || len(n.Spec.Finalizers) != 1 {
		t.Fatalf("after update: %+v, %v", n, err)
	}
	n.Spec.Finalizers = nil
	if _, err := client.Finalize(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(ctx, "doomed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after finalize: %v, want gone", err)
	}
}

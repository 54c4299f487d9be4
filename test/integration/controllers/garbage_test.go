// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/test/integration/framework"
)

// configMap makes a ConfigMap with the given owners.
func configMap(t *testing.T, ns, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	t.Helper()
	m, err := cluster.Client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners, Labels: map[string]string{"garbage": "yes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ownedBy(m *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID, BlockOwnerDeletion: new(true)}
}

func noConfigMaps(t *testing.T, ns string) {
	t.Helper()
	framework.Eventually(t, "all config maps are gone", func() error {
		list, err := cluster.Client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "garbage"})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
}

// TestGarbageCollector_Circle deletes one of three objects that own one another in a circle, in the foreground.
func TestGarbageCollector_Circle(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	a := configMap(t, ns, "a")
	b := configMap(t, ns, "b", ownedBy(a))
	c := configMap(t, ns, "c", ownedBy(b))
	patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":%q,"blockOwnerDeletion":true}]}}`, c.UID)
	if _, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
		t.Fatal(err)
	}
	noConfigMaps(t, ns)
}

// TestGarbageCollector_TwoOwners keeps what another owner still has, without the reference to the one that went.
func TestGarbageCollector_TwoOwners(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	a, b := configMap(t, ns, "a"), configMap(t, ns, "b")
	configMap(t, ns, "child", ownedBy(a), ownedBy(b))
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the first owner", func() error {
		_, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
		return err
	})
	child, err := maps.Get(t.Context(), "child", metav1.GetOptions{})
	if err != nil || len(child.OwnerReferences) != 1 || child.OwnerReferences[0].Name != "b" {
		t.Fatalf("the child is %+v, %v", child, err)
	}
	if err := maps.Delete(t.Context(), "b", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	noConfigMaps(t, ns)
}

// TestGarbageCollector_CustomOwner collects what an object owned whose kind was not known when the collector began.
func TestGarbageCollector_CustomOwner(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	client := define(t, "owners", apiextensionsv1.NamespaceScoped, version("v1", true))
	owners := custom(t, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "owners"}).Namespace(ns)
	for _, name := range []string{"deleted", "of-a-kind-that-goes"} {
		owner, err := owners.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Owner", "metadata": map[string]any{"name": name},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		configMap(t, ns, name, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Owner", Name: name, UID: owner.GetUID()})
	}
	if err := owners.Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func(name string) func() error {
		return func() error {
			_, err := cluster.Client.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
			return err
		}
	}
	gone(t, "the dependent of the deleted owner", get("deleted"))
	if err := get("of-a-kind-that-goes")(); err != nil {
		t.Fatal(err)
	}
	if err := client.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "owners.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the dependent of an owner whose kind went", get("of-a-kind-that-goes"))
}

// TestGarbageCollector_ManyDependents is about the order of growth: each dependent that goes may not cost a look at all others.
func TestGarbageCollector_ManyDependents(t *testing.T) {
	t.Parallel()
	const dependents = 1000
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		t.Run(string(policy), func(t *testing.T) {
			ns := cluster.Namespace(t)
			owner := configMap(t, ns, "owner")
			var making sync.WaitGroup
			for w := range 10 {
				making.Go(func() {
					for i := range dependents / 10 {
						_, err := cluster.Client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
							Name: fmt.Sprintf("d-%d-%d", w, i), OwnerReferences: []metav1.OwnerReference{ownedBy(owner)}, Labels: owner.Labels,
						}}, metav1.CreateOptions{})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			making.Wait()
			began := time.Now()
			if err := cluster.Client.CoreV1().ConfigMaps(ns).Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			noConfigMaps(t, ns)
			t.Logf("%d dependents went in %v", dependents, time.Since(began))
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"minik8s.io/minik8s/test/integration/framework"
)

func toUnstructured(obj runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	return &unstructured.Unstructured{Object: content}, err
}

func TestGarbageCollector_Background(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create(t, ns, framework.Deployment("web", 3))
	rolledOut(t, cluster.Client, ns, "web")
	remove(t, ns, "web", metav1.DeletePropagationBackground)
	gone(t, "the deployment", func() error {
		_, err := cluster.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err
	})
	framework.Eventually(t, "replica sets and pods are gone", func() error {
		sets, err := cluster.Client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := cluster.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(sets.Items)+len(pods.Items) > 0 {
			return fmt.Errorf("%d replica sets and %d pods are left", len(sets.Items), len(pods.Items))
		}
		return nil
	})
}

func TestGarbageCollector_ForegroundGoesFromTheLeaves(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create(t, ns, framework.Deployment("web", 2))
	d := rolledOut(t, cluster.Client, ns, "web")
	var mu sync.Mutex
	var order []string
	note := func(kind string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, kind)
	}
	from := metav1.ListOptions{ResourceVersion: d.ResourceVersion}
	framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return cluster.Client.CoreV1().Pods(ns).Watch(ctx, from)
	},
		func(e watch.EventType, _ *corev1.Pod) {
			if e == watch.Deleted {
				note("pod")
			}
		})
	remove(t, ns, "web", metav1.DeletePropagationForeground)
	gone(t, "the deployment", func() error {
		_, err := cluster.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err
	})
	// Once the owner is gone, all below it has to be gone already.
	sets, err := cluster.Client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) > 0 {
		t.Errorf("%d replica sets outlived the deployment, %v", len(sets.Items), err)
	}
	pods, err := cluster.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods outlived the deployment, %v", len(pods.Items), err)
	}
	framework.Eventually(t, "both pods were seen going", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 2 {
			return fmt.Errorf("saw %v", order)
		}
		return nil
	})
}

func TestGarbageCollector_Orphan(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create(t, ns, framework.Deployment("web", 2))
	rolledOut(t, cluster.Client, ns, "web")
	remove(t, ns, "web", metav1.DeletePropagationOrphan)
	gone(t, "the deployment", func() error {
		_, err := cluster.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err
	})
	sets, err := cluster.Client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 1 || len(sets.Items[0].OwnerReferences) != 0 || sets.Items[0].DeletionTimestamp != nil {
		t.Fatalf("replica sets left are %+v, %v", sets.Items, err)
	}
	// A new Deployment of the same selector and template takes over what was left, pods included.
	before := podNames(t, ns)
	create(t, ns, framework.Deployment("web", 2))
	rolledOut(t, cluster.Client, ns, "web")
	if after := podNames(t, ns); !slices.Equal(before, after) {
		t.Errorf("pods were replaced: before %v, after %v", before, after)
	}
}

func podNames(t *testing.T, ns string) []string {
	t.Helper()
	pods, err := activePods(cluster.Client, ns)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

func TestGarbageCollector_BlockOwnerDeletion(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]bool{"blocking": true, "free": false} {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{"example.com/hold"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, BlockOwnerDeletion: new(block)}},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) func() error {
		return func() error {
			_, err := maps.Get(t.Context(), name, metav1.GetOptions{})
			return err
		}
	}
	if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "both dependents are being deleted", func() error {
		for _, name := range []string{"blocking", "free"} {
			m, err := maps.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if m.DeletionTimestamp == nil {
				return fmt.Errorf("%s is not", name)
			}
		}
		return nil
	})
	if err := get("owner")(); err != nil {
		t.Fatalf("the owner did not wait for the dependent that blocks it: %v", err)
	}
	release(t, ns, "blocking")
	gone(t, "the owner", get("owner"))
	if err := get("free")(); err != nil {
		t.Errorf("the dependent that does not block had to go first: %v", err)
	}
	release(t, ns, "free")
	gone(t, "the last dependent", get("free"))
}

func TestGarbageCollector_OwnerThatNeverWas(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "orphan", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "nobody", UID: "0000-1111"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone(t, "an object of an owner that does not exist", func() error {
		_, err := maps.Get(t.Context(), "orphan", metav1.GetOptions{})
		return err
	})
}

// release takes the finalizers from a ConfigMap.
func release(t *testing.T, ns, name string) {
	t.Helper()
	_, err := cluster.Client.CoreV1().ConfigMaps(ns).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, ns, name string, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := cluster.Client.AppsV1().Deployments(ns).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
}

func TestNamespace_DeletedInOrder(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	pod := framework.Pod("held", "held")
	pod.Finalizers = []string{"example.com/hold"}
	if _, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, ns, framework.Deployment("web", 2))
	if _, err := cluster.Client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, cluster.Client, ns, "web")
	if err := cluster.Client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the conditions tell what is left", func() error {
		got, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := map[corev1.NamespaceConditionType]string{
			corev1.NamespaceContentRemaining:         "Some resources are remaining: pods. has 1 resource instances",
			corev1.NamespaceFinalizersRemaining:      "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
			corev1.NamespaceDeletionDiscoveryFailure: "All resources successfully discovered",
		}
		for _, c := range got.Status.Conditions {
			if want[c.Type] == c.Message {
				delete(want, c.Type)
			}
		}
		if got.Status.Phase != corev1.NamespaceTerminating || len(want) > 0 {
			return fmt.Errorf("phase %s, conditions %+v", got.Status.Phase, got.Status.Conditions)
		}
		return nil
	})
	// Everything else waits for the pods.
	if _, err := cluster.Client.CoreV1().ConfigMaps(ns).Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
		t.Errorf("a config map went before the last pod: %v", err)
	}
	if _, err := cluster.Client.CoreV1().Pods(ns).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the namespace", func() error {
		_, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		return err
	})
	if _, err := cluster.Client.CoreV1().ConfigMaps(ns).Get(t.Context(), "settings", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a config map outlived its namespace: %v", err)
	}
}

func TestReplicaSet_AdoptsAndReleases(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	pods := cluster.Client.CoreV1().Pods(ns)
	orphan, err := pods.Create(t.Context(), framework.Pod("orphan", "web"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rs, err := cluster.Client.AppsV1().ReplicaSets(ns).Create(t.Context(), framework.ReplicaSet("web", 2), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the orphan is adopted and one pod made", func() error {
		have, err := activePods(cluster.Client, ns)
		if err != nil {
			return err
		}
		if len(have) != 2 {
			return fmt.Errorf("%d pods", len(have))
		}
		for _, p := range have {
			if ref := metav1.GetControllerOf(&p); ref == nil || ref.UID != rs.UID || ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion {
				return fmt.Errorf("pod %q has the owners %+v", p.Name, p.OwnerReferences)
			}
			if !slices.ContainsFunc(p.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "kube-controller-manager" }) {
				return fmt.Errorf("pod %q has the field managers %v", p.Name, p.ManagedFields)
			}
		}
		return nil
	})
	if _, err := pods.Patch(t.Context(), orphan.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"debug"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the pod is released and replaced", func() error {
		p, err := pods.Get(t.Context(), orphan.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.OwnerReferences) > 0 {
			return errors.New("it still has an owner")
		}
		have, err := activePods(cluster.Client, ns)
		if err == nil && len(have) != 3 {
			return fmt.Errorf("%d pods, want two replicas and the released one", len(have))
		}
		return err
	})
}

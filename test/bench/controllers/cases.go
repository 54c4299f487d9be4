// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/program"
)

// testCase is what is measured with a fresh cluster.
type testCase struct {
	name string
	// prepare comes before the clock starts.
	prepare func(ctx context.Context, k *controlPlane, scale float64) error
	steps   []step
}

// step is what is timed.
type step struct {
	name   string
	within time.Duration
	do     func(ctx context.Context, k *controlPlane, scale float64) error
	// rest says that nothing is asked of the manager: the time is given, only what it costs is measured.
	rest bool
}

// namespace is where all cases take place.
const namespace = "bench"

// The number of objects of each case.
const (
	replicas, dependents, indexes  = 500, 10000, 1000
	maps, secrets, roles, leases   = 2000, 1000, 1000, 1000
	fakeNodes, podsPerNode, writes = 100, 100, 20
	podsPerSilentNode              = 105
)

var cases = []testCase{
	{name: "deployment", prepare: makeNamespace, steps: []step{
		{name: "Deployment of 500 pods", do: deploy},
		{name: "scale to 0", do: scaleDown},
	}},
	{name: "namespace", prepare: fillNamespace, steps: []step{{name: "deletion of a namespace with 5000 objects", do: deleteNamespace}}},
	{name: "garbage", prepare: makeDependents, steps: []step{{name: "deletion of 10000 dependents", do: deleteOwner}}},
	{name: "job", prepare: playKubelets, steps: []step{{name: "Job of 1000 indexes", do: runJob}}},
	{name: "pods", prepare: playKubelets, steps: []step{
		{name: "10000 pods run on 100 nodes", within: 60 * time.Second, do: runPods},
		{name: "10000 pods are gone", within: 90 * time.Second, do: deletePods},
	}},
	{name: "silence", prepare: fallSilent, steps: []step{
		{name: "30 s with 100 silent nodes and 10500 pods", do: func(ctx context.Context, _ *controlPlane, _ float64) error {
			return program.Pause(ctx, 30*time.Second)
		}, rest: true},
	}},
}

// part of n objects.
func part(n int, scale float64) int { return max(1, int(float64(n)*scale)) }

// each calls write for 0 to n-1, some at a time.
func each(ctx context.Context, n int, write func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writes)
	for i := range n {
		group.Go(func() error { return write(ctx, i) })
	}
	return group.Wait()
}

// until asks often until count returns n.
func until(ctx context.Context, n int, count func(context.Context) (int, error)) error {
	got := 0
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 15*time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		got, err = count(ctx)
		return err == nil && got == n, err
	})
	if err != nil {
		return fmt.Errorf("there are %d, not %d: %w", got, n, err)
	}
	return nil
}

// total is the length of a list of which one item was asked for.
func total(items int, meta metav1.ListMeta, err error) (int, error) {
	return items + int(ptr.Deref(meta.RemainingItemCount, 0)), err
}

func countPods(k *controlPlane) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		list, err := k.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		return total(len(list.Items), list.ListMeta, nil)
	}
}

func makeNamespace(ctx context.Context, k *controlPlane, _ float64) error {
	_, err := k.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return until(ctx, 1, func(ctx context.Context) (int, error) {
		list, err := k.client.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	})
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}, TerminationGracePeriodSeconds: new(int64(0))}
}

func deployment(name string, pods int, spec corev1.PodSpec) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(pods)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

func deploy(ctx context.Context, k *controlPlane, scale float64) error {
	n := part(replicas, scale)
	if _, err := k.client.AppsV1().Deployments(namespace).Create(ctx, deployment("web", n, podSpec()), metav1.CreateOptions{}); err != nil {
		return err
	}
	return until(ctx, n, countPods(k))
}

func scaleDown(ctx context.Context, k *controlPlane, _ float64) error {
	_, err := k.client.AppsV1().Deployments(namespace).Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return until(ctx, 0, countPods(k))
}

func fillNamespace(ctx context.Context, k *controlPlane, scale float64) error {
	if err := makeNamespace(ctx, k, scale); err != nil {
		return err
	}
	meta := func(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Name: fmt.Sprintf("o-%d", i)} }
	none := metav1.CreateOptions{}
	return errors.Join(
		each(ctx, part(maps, scale), func(ctx context.Context, i int) error {
			_, err := k.client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta(i)}, none)
			return err
		}),
		each(ctx, part(secrets, scale), func(ctx context.Context, i int) error {
			_, err := k.client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta(i)}, none)
			return err
		}),
		each(ctx, part(roles, scale), func(ctx context.Context, i int) error {
			_, err := k.client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta(i)}, none)
			return err
		}),
		each(ctx, part(leases, scale), func(ctx context.Context, i int) error {
			_, err := k.client.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: meta(i)}, none)
			return err
		}),
	)
}

func deleteNamespace(ctx context.Context, k *controlPlane, _ float64) error {
	if err := k.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return until(ctx, 0, func(ctx context.Context) (int, error) {
		_, err := k.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 1, err
	})
}

func makeDependents(ctx context.Context, k *controlPlane, scale float64) error {
	if err := makeNamespace(ctx, k, scale); err != nil {
		return err
	}
	owner, err := k.client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	reference := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID}}
	return each(ctx, part(dependents, scale), func(ctx context.Context, i int) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("d-%d", i), OwnerReferences: reference}}
		_, err := k.client.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

func deleteOwner(ctx context.Context, k *controlPlane, _ float64) error {
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := k.client.CoreV1().Secrets(namespace).Delete(ctx, "owner", background); err != nil {
		return err
	}
	// What is left is the ConfigMap that every namespace has.
	return until(ctx, 1, func(ctx context.Context) (int, error) {
		list, err := k.client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		return total(len(list.Items), list.ListMeta, nil)
	})
}

func runJob(ctx context.Context, k *controlPlane, scale float64) error {
	n := part(indexes, scale)
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{
			Completions: new(int32(n)), Parallelism: new(int32(max(1, n/10))), CompletionMode: new(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: spec},
		},
	}
	if _, err := k.client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return err
	}
	return until(ctx, 1, func(ctx context.Context) (int, error) {
		job, err := k.client.BatchV1().Jobs(namespace).Get(ctx, "job", metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
				return 1, nil
			}
		}
		return 0, nil
	})
}

// runPods lets every node have pods of its own Deployment, for there is no scheduler.
func runPods(ctx context.Context, k *controlPlane, scale float64) error {
	n, perNode := part(fakeNodes, scale), podsPerNode
	err := each(ctx, n, func(ctx context.Context, i int) error {
		spec := podSpec()
		spec.NodeName = nodeName(i)
		_, err := k.client.AppsV1().Deployments(namespace).Create(ctx, deployment(nodeName(i), perNode, spec), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return until(ctx, n*perNode, func(ctx context.Context) (int, error) {
		list, err := k.client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		available := 0
		for i := range list.Items {
			available += int(list.Items[i].Status.AvailableReplicas)
		}
		return available, nil
	})
}

func deletePods(ctx context.Context, k *controlPlane, _ float64) error {
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := k.client.AppsV1().Deployments(namespace).DeleteCollection(ctx, background, metav1.ListOptions{}); err != nil {
		return err
	}
	return until(ctx, 0, countPods(k))
}

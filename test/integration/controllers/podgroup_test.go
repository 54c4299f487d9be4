// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/test/integration/framework"
)

func gang(pods int32) schedulingv1beta1.PodGroupSchedulingPolicy {
	return schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: pods}}
}

func podOf(name, group string) *corev1.Pod {
	p := framework.Pod(name, name)
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// With the gate GenericWorkload there are Workloads and PodGroups, and a group stays until its last pod is gone.
func TestPodGroup(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, true)
	c := framework.Start(t, framework.Options{Controllers: []string{"*"}})
	ns := c.Namespace(t)
	t.Run("workload", func(t *testing.T) { workloadLives(t, c.Client, ns) })
	t.Run("group", func(t *testing.T) { groupOutlivesPods(t, c.Client, ns) })
	t.Run("openapi", func(t *testing.T) {
		document, err := c.Client.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/scheduling.k8s.io/v1beta1").DoRaw(t.Context())
		if err != nil || !strings.Contains(string(document), `"io.k8s.api.scheduling.v1beta1.GangSchedulingPolicy"`) {
			t.Errorf("%d bytes, %v", len(document), err)
		}
	})
	t.Run("template", func(t *testing.T) {
		set := framework.ReplicaSet("templated", 1)
		set.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
		if _, err := c.Client.AppsV1().ReplicaSets(ns).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "a pod of the template", func() error {
			pods, err := c.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=templated"})
			if err != nil || len(pods.Items) != 1 {
				return fmt.Errorf("pods: %v, %w", pods, err)
			}
			if g := pods.Items[0].Spec.SchedulingGroup; g == nil || *g.PodGroupName != "g" {
				return fmt.Errorf("the group of the pod is %v", g)
			}
			return nil
		})
	})
}

func workloadLives(t *testing.T, client kubernetes.Interface, ns string) {
	t.Helper()
	ctx := t.Context()
	workloads := client.SchedulingV1beta1().Workloads(ns)
	made, err := workloads.Create(ctx, &schedulingv1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Spec: schedulingv1beta1.WorkloadSpec{PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{
			{Name: "a", SchedulingPolicy: gang(2), PreemptionPolicy: new(schedulingv1beta1.PreemptNever)},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p := made.Spec.PodGroupTemplates[0].PreemptionPolicy; p != nil {
		t.Errorf("a field whose gate is off is kept: %v", *p)
	}
	patched, err := workloads.Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"podGroupTemplates":[{"name":"a","schedulingPolicy":{"gang":{"minCount":3}}}]}}`), metav1.PatchOptions{})
	if err != nil || patched.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang.MinCount != 3 {
		t.Errorf("patched: %v, %v", patched, err)
	}
	patched.Spec.PodGroupTemplates[0].Name = "b"
	if _, err := workloads.Update(ctx, patched, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("another template: %v, want invalid", err)
	}
	if err := workloads.Delete(ctx, "w", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := workloads.Get(ctx, "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}

func groupOutlivesPods(t *testing.T, client kubernetes.Interface, ns string) {
	t.Helper()
	ctx := t.Context()
	groups, pods := client.SchedulingV1beta1().PodGroups(ns), client.CoreV1().Pods(ns)
	made, err := groups.Create(ctx, &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang(2)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := made.Spec; s.Priority == nil || *s.Priority != 0 || s.DisruptionMode == nil || s.DisruptionMode.Single == nil || s.PreemptionPolicy != nil {
		t.Errorf("the defaults are %+v", s)
	}
	if want := []string{"scheduling.k8s.io/podgroup-protection"}; !slices.Equal(made.Finalizers, want) {
		t.Errorf("finalizers are %v, want %v", made.Finalizers, want)
	}
	made.Status.Conditions = []metav1.Condition{{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled", LastTransitionTime: metav1.Now(),
	}}
	if made, err = groups.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil || len(made.Status.Conditions) != 1 {
		t.Fatalf("status: %v, %v", made, err)
	}
	for _, name := range []string{"a", "b"} {
		p, err := pods.Create(ctx, podOf(name, "g"), metav1.CreateOptions{})
		if err != nil || p.Spec.SchedulingGroup == nil || *p.Spec.SchedulingGroup.PodGroupName != "g" {
			t.Fatalf("pod %s: %v, %v", name, p, err)
		}
	}
	if _, err := pods.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"schedulingGroup":{"podGroupName":"h"}}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("another group: %v, want invalid", err)
	}
	if _, err := pods.Create(ctx, podOf("c", "G"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a group of an impossible name: %v, want invalid", err)
	}

	if err := groups.Delete(ctx, "g", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if g, err := groups.Get(ctx, "g", metav1.GetOptions{}); err != nil || g.DeletionTimestamp == nil {
		t.Errorf("with a pod left the group is %v, %v", g, err)
	}
	if err := pods.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "group g", func() error {
		_, err := groups.Get(ctx, "g", metav1.GetOptions{})
		return err
	})
}

// Without the gate nothing is known of them, and pods have no group.
func TestPodGroup_GateOff(t *testing.T) {
	ns := cluster.Namespace(t)
	client := cluster.Client
	if _, err := client.SchedulingV1beta1().PodGroups(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("groups: %v, want not found", err)
	}
	if list, err := client.Discovery().ServerResourcesForGroupVersion("scheduling.k8s.io/v1beta1"); !apierrors.IsNotFound(err) {
		t.Errorf("discovery: %v, %v", list, err)
	}
	pod := podOf("p", "G")
	made, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil || made.Spec.SchedulingGroup != nil {
		t.Error(errors.Join(err, fmt.Errorf("the pod has the group %v", made.Spec.SchedulingGroup)))
	}
}

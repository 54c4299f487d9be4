// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/test/integration/framework"
)

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "one"}}},
	}
}

func TestDaemonSet_RollsOutAndBack(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	sets := cluster.Client.AppsV1().DaemonSets(ns)
	_, err := sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: template("agent")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	settled := func(image string, revisions map[int64]bool) {
		t.Helper()
		framework.Eventually(t, "every node runs "+image, func() error {
			ds, err := sets.Get(t.Context(), "agent", metav1.GetOptions{})
			if err != nil {
				return err
			}
			// Other tests may add nodes.
			s := ds.Status
			if n := s.DesiredNumberScheduled; n < 2 || s.ObservedGeneration != ds.Generation || s.UpdatedNumberScheduled != n || s.NumberAvailable != n || s.NumberUnavailable != 0 {
				return fmt.Errorf("status %+v", s)
			}
			pods, err := activePods(cluster.Client, ns)
			if err != nil {
				return err
			}
			nodes := map[string]bool{}
			for _, p := range pods {
				if nodes[p.Spec.NodeName] || p.Spec.Containers[0].Image != image || p.Labels[appsv1.ControllerRevisionHashLabelKey] == "" {
					return fmt.Errorf("pod %s on %q has image %q and labels %v", p.Name, p.Spec.NodeName, p.Spec.Containers[0].Image, p.Labels)
				}
				nodes[p.Spec.NodeName] = true
			}
			list, err := cluster.Client.AppsV1().ControllerRevisions(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			got := map[int64]bool{}
			for _, r := range list.Items {
				got[r.Revision] = true
			}
			if diff := cmp.Diff(revisions, got); diff != "" {
				return fmt.Errorf("revisions (-want +got): %s", diff)
			}
			return nil
		})
	}
	settled("one", map[int64]bool{1: true})
	first, err := cluster.Client.AppsV1().ControllerRevisions(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Patch(t.Context(), "agent", types.MergePatchType, []byte(image("two")), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	settled("two", map[int64]bool{1: true, 2: true})
	// This is what kubectl rollout undo sends.
	if _, err := sets.Patch(t.Context(), "agent", types.StrategicMergePatchType, first.Items[0].Data.Raw, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	settled("one", map[int64]bool{2: true, 3: true})
}

func TestReplicationController_KeepsItsPods(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	controllers := cluster.Client.CoreV1().ReplicationControllers(ns)
	_, err := controllers.Create(t.Context(), &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ReplicationControllerSpec{Replicas: new(int32(3)), Selector: map[string]string{"app": "web"}, Template: new(template("web"))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has := func(n int) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("%d pods are there", n), func() error {
			rc, err := controllers.Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			pods, err := activePods(cluster.Client, ns)
			if err != nil {
				return err
			}
			if len(pods) != n || rc.Status.AvailableReplicas != int32(n) || rc.Status.Replicas != int32(n) {
				return fmt.Errorf("%d pods, status %+v", len(pods), rc.Status)
			}
			return nil
		})
	}
	has(3)
	if _, err := controllers.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	has(1)
}

func TestPodDisruptionBudget_GuardsEvictions(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create(t, ns, framework.Deployment("web", 3))
	rolledOut(t, cluster.Client, ns, "web")
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets(ns)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: new(intstr.FromInt32(1)),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allows := func(n int32, reason string) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("the budget allows %d", n), func() error {
			pdb, err := budgets.Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			s := pdb.Status
			if s.DisruptionsAllowed != n || s.ExpectedPods != 3 || s.DesiredHealthy != 2 || len(s.Conditions) != 1 || s.Conditions[0].Reason != reason {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		})
	}
	allows(1, policyv1.SufficientPodsReason)
	pods, err := activePods(cluster.Client, ns)
	if err != nil {
		t.Fatal(err)
	}
	mark := func(name, value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, unready, value)
		if _, err := cluster.Client.CoreV1().Pods(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	evict := func(name string) error {
		return cluster.Client.CoreV1().Pods(ns).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	mark(pods[0].Name, `"yes"`)
	allows(0, policyv1.InsufficientPodsReason)
	if err := evict(pods[1].Name); !apierrors.IsTooManyRequests(err) {
		t.Errorf("eviction without a budget: %v", err)
	}
	mark(pods[0].Name, "null")
	allows(1, policyv1.SufficientPodsReason)
	if err := evict(pods[1].Name); err != nil {
		t.Errorf("eviction within the budget: %v", err)
	}
	allows(1, policyv1.SufficientPodsReason)
}

func TestResourceQuota_CountsAndLimits(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	quotas := cluster.Client.CoreV1().ResourceQuotas(ns)
	hard := corev1.ResourceList{}
	for name, amount := range map[corev1.ResourceName]string{
		"pods": "1", "requests.cpu": "1", "secrets": "2", "count/deployments.apps": "1", "persistentvolumeclaims": "1", "services.nodeports": "1",
	} {
		hard[name] = resource.MustParse(amount)
	}
	if _, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	uses := func(want map[corev1.ResourceName]string) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("the quota shows %v", want), func() error {
			q, err := quotas.Get(t.Context(), "quota", metav1.GetOptions{})
			if err != nil {
				return err
			}
			got := map[corev1.ResourceName]string{}
			for name, amount := range q.Status.Used {
				got[name] = amount.String()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("used (-want +got): %s", diff)
			}
			return nil
		})
	}
	used := map[corev1.ResourceName]string{
		"pods": "0", "requests.cpu": "0", "secrets": "0", "count/deployments.apps": "0", "persistentvolumeclaims": "0", "services.nodeports": "0",
	}
	uses(used)
	pod := func(name, cpu string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: template("x").Spec}
		if cpu != "" {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		}
		return p
	}
	pods := cluster.Client.CoreV1().Pods(ns)
	for name, refused := range map[string]*corev1.Pod{"too much": pod("big", "2"), "unsaid": pod("vague", "")} {
		if _, err := pods.Create(t.Context(), refused, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("pod that requests %s: %v", name, err)
		}
	}
	if _, err := pods.Create(t.Context(), pod("first", "500m"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(t.Context(), pod("second", "100m"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("one pod too many: %v", err)
	}
	secrets := cluster.Client.CoreV1().Secrets(ns)
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used["pods"], used["requests.cpu"], used["secrets"] = "1", "500m", "1"
	uses(used)
	if err := pods.Delete(t.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	used["pods"], used["requests.cpu"], used["secrets"] = "0", "0", "0"
	uses(used)
}

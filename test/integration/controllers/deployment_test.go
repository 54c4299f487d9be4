// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"minik8s.io/minik8s/test/integration/framework"
)

// bounds watches every state that a rollout goes through.
type bounds struct {
	mu sync.Mutex
	// all is guarded by mu.
	violations []string
	sizes      map[types.UID]int32
	ready      map[types.UID]bool
	pods       int
}

// watchBounds checks that no state has more replicas than most or fewer ready pods than least.
func watchBounds(t *testing.T, ns string, most, least int) *bounds {
	t.Helper()
	b := &bounds{sizes: map[types.UID]int32{}, ready: map[types.UID]bool{}}
	ctx := t.Context()
	sets, err := cluster.Client.AppsV1().ReplicaSets(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rs := range sets.Items {
		b.sizes[rs.UID] = *rs.Spec.Replicas
	}
	pods, err := cluster.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		b.ready[p.UID] = isReady(&p)
	}
	framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return cluster.Client.AppsV1().ReplicaSets(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: sets.ResourceVersion})
	}, func(e watch.EventType, rs *appsv1.ReplicaSet) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sizes[rs.UID] = *rs.Spec.Replicas
		if e == watch.Deleted {
			delete(b.sizes, rs.UID)
		}
		sum := 0
		for _, n := range b.sizes {
			sum += int(n)
		}
		if sum > most {
			b.violations = append(b.violations, fmt.Sprintf("%d replicas, more than %d: %v", sum, most, b.sizes))
		}
	})
	framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return cluster.Client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	}, func(e watch.EventType, p *corev1.Pod) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.pods++
		b.ready[p.UID] = e != watch.Deleted && p.DeletionTimestamp == nil && isReady(p)
		sum := 0
		for _, ready := range b.ready {
			if ready {
				sum++
			}
		}
		if sum < least {
			b.violations = append(b.violations, fmt.Sprintf("%d pods are ready, fewer than %d", sum, least))
		}
	})
	return b
}

func (b *bounds) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.violations {
		t.Error(v)
	}
	if b.pods == 0 {
		t.Error("no pod changed: nothing was checked")
	}
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func TestDeployment_RollingUpdateStaysWithinBounds(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		replicas              int32
		surge, unavailable    intstr.IntOrString
		wantMost, wantAtLeast int
	}{
		{"surge only", 6, intstr.FromInt32(1), intstr.FromInt32(0), 7, 6},
		{"unavailable only", 6, intstr.FromInt32(0), intstr.FromInt32(2), 6, 4},
		{"percentages", 10, intstr.FromString("25%"), intstr.FromString("25%"), 13, 8},
		{"large surge", 4, intstr.FromString("100%"), intstr.FromInt32(0), 8, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ns := cluster.Namespace(t)
			d := framework.Deployment("web", tc.replicas)
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: &tc.surge, MaxUnavailable: &tc.unavailable,
			}}
			create(t, ns, d)
			rolledOut(t, cluster.Client, ns, "web")
			b := watchBounds(t, ns, tc.wantMost, tc.wantAtLeast)
			for _, version := range []string{"v2", "v3"} {
				apply(t, cluster.Client, ns, "web", image(version))
				rolledOut(t, cluster.Client, ns, "web")
			}
			// A rollout that is overtaken by the next one must keep the bounds too.
			apply(t, cluster.Client, ns, "web", image("v4"))
			apply(t, cluster.Client, ns, "web", image("v5"))
			got := rolledOut(t, cluster.Client, ns, "web")
			b.check(t)
			if reason := progress(got).Reason; reason != "NewReplicaSetAvailable" {
				t.Errorf("Progressing has the reason %q", reason)
			}
		})
	}
}

func TestDeployment_RecreateNeverMixes(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	d := framework.Deployment("web", 3)
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	create(t, ns, d)
	rolledOut(t, cluster.Client, ns, "web")
	list, err := cluster.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[types.UID]string{}
	for _, p := range list.Items {
		there[p.UID] = p.Spec.Containers[0].Image
	}
	var mu sync.Mutex
	mixed := false
	stop := framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return cluster.Client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	}, func(e watch.EventType, p *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		there[p.UID] = p.Spec.Containers[0].Image
		if e == watch.Deleted {
			delete(there, p.UID)
		}
		images := map[string]bool{}
		for _, image := range there {
			images[image] = true
		}
		mixed = mixed || len(images) > 1
	})
	apply(t, cluster.Client, ns, "web", image("v2"))
	rolledOut(t, cluster.Client, ns, "web")
	stop()
	if mixed {
		t.Error("pods of the old and the new template existed at the same time")
	}
}

// TestDeployment_Undo uses kubectl's own code.
func TestDeployment_Undo(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create(t, ns, framework.Deployment("web", 2))
	rolledOut(t, cluster.Client, ns, "web")
	apply(t, cluster.Client, ns, "web", image("v2"))
	d := rolledOut(t, cluster.Client, ns, "web")

	kind := appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()
	rollbacker, err := polymorphichelpers.RollbackerFor(kind, cluster.Client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollbacker.Rollback(d, map[string]string{}, 0, cmdutil.DryRunNone); err != nil {
		t.Fatal(err)
	}
	d = rolledOut(t, cluster.Client, ns, "web")
	if got := d.Spec.Template.Spec.Containers[0].Image; got != "v1" {
		t.Errorf("after undo the image is %q", got)
	}
	if got := d.Annotations["deployment.kubernetes.io/revision"]; got != "3" {
		t.Errorf("after undo the revision is %q, want 3", got)
	}
	sets, err := cluster.Client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(sets.Items) != 2 {
		t.Errorf("%d replica sets, want the two of v1 and v2", len(sets.Items))
	}
	history, err := polymorphichelpers.HistoryViewerFor(kind, cluster.Client)
	if err != nil {
		t.Fatal(err)
	}
	text, err := history.ViewHistory(ns, "web", 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("REVISION  CHANGE-CAUSE\n2         <none>\n3         <none>\n", text); diff != "" {
		t.Errorf("rollout history (-want +got):\n%s", diff)
	}
}

func TestDeployment_PauseAndResume(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	create(t, ns, framework.Deployment("web", 2))
	rolledOut(t, cluster.Client, ns, "web")
	apply(t, cluster.Client, ns, "web", `{"spec":{"paused":true}}`)
	d := apply(t, cluster.Client, ns, "web", image("v2"))
	apply(t, cluster.Client, ns, "web", `{"spec":{"replicas":4}}`)
	framework.Eventually(t, "a paused deployment is scaled but not rolled out", func() error {
		got, err := cluster.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		have, err := sizes(cluster.Client, ns)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(map[string]int32{"v1": 4}, have); diff != "" {
			return fmt.Errorf("sizes (-want +got): %s", diff)
		}
		if p := progress(got); p.Reason != "DeploymentPaused" || p.Status != corev1.ConditionUnknown || got.Status.ObservedGeneration <= d.Generation {
			return fmt.Errorf("status %+v", got.Status)
		}
		return nil
	})
	apply(t, cluster.Client, ns, "web", `{"spec":{"paused":false}}`)
	rolledOut(t, cluster.Client, ns, "web")
	have, err := sizes(cluster.Client, ns)
	if diff := cmp.Diff(map[string]int32{"v1": 0, "v2": 4}, have); err != nil || diff != "" {
		t.Errorf("after resuming: %v, sizes (-want +got): %s", err, diff)
	}
}

func TestDeployment_ScalesProportionally(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	d := framework.Deployment("web", 10)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(3)), MaxUnavailable: new(intstr.FromInt32(2))}
	create(t, ns, d)
	rolledOut(t, cluster.Client, ns, "web")
	apply(t, cluster.Client, ns, "web", image("broken"))
	eventualSizes(t, ns, map[string]int32{"v1": 8, "broken": 5})
	apply(t, cluster.Client, ns, "web", `{"spec":{"replicas":30}}`)
	eventualSizes(t, ns, map[string]int32{"v1": 20, "broken": 13})
}

func eventualSizes(t *testing.T, ns string, want map[string]int32) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("sizes %v", want), func() error {
		have, err := sizes(cluster.Client, ns)
		if diff := cmp.Diff(want, have); err == nil && diff != "" {
			return fmt.Errorf("(-want +got): %s", diff)
		}
		return err
	})
}

func TestDeployment_ProgressDeadline(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	d := framework.Deployment("web", 2)
	d.Spec.ProgressDeadlineSeconds = new(int32(1))
	d.Spec.Template.Spec.Containers[0].Image = "broken"
	create(t, ns, d)
	framework.Eventually(t, "the deadline is reported", func() error {
		got, err := cluster.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p := progress(got); p.Status != corev1.ConditionFalse || p.Reason != "ProgressDeadlineExceeded" {
			return fmt.Errorf("Progressing is %+v", p)
		}
		viewer, err := polymorphichelpers.StatusViewerFor(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind())
		if err != nil {
			return err
		}
		content, err := toUnstructured(got)
		if err != nil {
			return err
		}
		if _, _, err := viewer.Status(content, 0); err == nil || err.Error() != `deployment "web" exceeded its progress deadline` {
			t.Errorf("kubectl rollout status answers %v", err)
		}
		return nil
	})
	apply(t, cluster.Client, ns, "web", image("v2"))
	if p := progress(rolledOut(t, cluster.Client, ns, "web")); p.Status != corev1.ConditionTrue {
		t.Errorf("after a better rollout Progressing is %+v", p)
	}
}

func TestDeployment_HistoryIsLimited(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	d := framework.Deployment("web", 1)
	d.Spec.RevisionHistoryLimit = new(int32(1))
	create(t, ns, d)
	rolledOut(t, cluster.Client, ns, "web")
	for _, version := range []string{"v2", "v3", "v4"} {
		apply(t, cluster.Client, ns, "web", image(version))
		rolledOut(t, cluster.Client, ns, "web")
	}
	eventualSizes(t, ns, map[string]int32{"v3": 0, "v4": 1})
}

func create(t *testing.T, ns string, d *appsv1.Deployment) {
	t.Helper()
	if _, err := cluster.Client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func progress(d *appsv1.Deployment) appsv1.DeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}

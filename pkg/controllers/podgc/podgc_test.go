// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podgc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func pod(name, node string, phase corev1.PodPhase, deleted bool, age int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(age) * time.Hour))},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}
	if deleted {
		at := metav1.NewTime(now)
		p.DeletionTimestamp = &at
	}
	return p
}

func TestVictims(t *testing.T) {
	dead := corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}}}
	alive := *dead.DeepCopy()
	alive.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	nodes := map[string]*corev1.Node{"dead": &dead, "alive": &alive}
	list := []*corev1.Pod{
		pod("runs", "alive", corev1.PodRunning, false, 1),
		pod("orphan", "gone", corev1.PodRunning, false, 1),
		pod("quarantined", "missing", corev1.PodRunning, false, 1),
		pod("never-scheduled", "", corev1.PodPending, true, 1),
		pod("waits", "", corev1.PodPending, false, 1),
		pod("stuck", "dead", corev1.PodRunning, true, 1),
		pod("ending", "alive", corev1.PodRunning, true, 1),
		pod("oldest", "alive", corev1.PodSucceeded, false, 9),
		pod("older", "alive", corev1.PodFailed, false, 8),
		pod("old", "alive", corev1.PodSucceeded, false, 7),
	}
	got := map[string]bool{}
	for _, v := range Victims(list, nodes, map[string]bool{"gone": true}, 2) {
		got[v.Pod.Name] = v.Orphaned
	}
	want := map[string]bool{"orphan": true, "never-scheduled": false, "stuck": false, "oldest": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("victims (-want +got):\n%s", diff)
	}
	young := pod("evicted", "alive", corev1.PodFailed, false, 1)
	young.Status.Reason = "Evicted"
	if got := Victims(append(list[7:], young), nodes, nil, 3); len(got) != 1 || got[0].Pod != young {
		t.Errorf("%v go, and not first what was evicted", got)
	}
	if got := Victims(list[7:], nodes, nil, 0); len(got) != 0 {
		t.Errorf("without a threshold %v go", got)
	}
}

func TestCollector(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{
			pod("orphan", "gone", corev1.PodRunning, false, 10), pod("oldest", "alive", corev1.PodSucceeded, false, 9),
			pod("older", "alive", corev1.PodSucceeded, false, 8), pod("old", "alive", corev1.PodSucceeded, false, 7),
			pod("runs", "alive", corev1.PodRunning, false, 1), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alive"}},
		},
		New: func(c client.Client) reconcile.Reconciler {
			collector := &Collector{Client: c, Live: controllertest.Live(c), Clock: clocktesting.NewFakeClock(now), Threshold: 1}
			collector.missing = map[string]time.Time{"gone": now.Add(-quarantine)}
			return reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, collector.Collect(ctx)
			})
		},
		Everything: true,
		Want: func(ctx context.Context, c client.Client) error {
			var left corev1.PodList
			if err := c.List(ctx, &left); err != nil {
				return err
			}
			var names []string
			for _, p := range left.Items {
				names = append(names, p.Name)
			}
			if diff := cmp.Diff([]string{"old", "runs"}, names); diff != "" {
				return fmt.Errorf("pods that are left (-want +got):\n%s", diff)
			}
			return nil
		},
	})
}

func TestCollect_Quarantine(t *testing.T) {
	orphan := pod("p", "gone", corev1.PodRunning, false, 1)
	c := controllertest.NewClientBuilder().WithObjects(orphan).WithStatusSubresource(&corev1.Pod{}).Build()
	clock := clocktesting.NewFakeClock(now)
	collector := &Collector{Client: c, Live: c, Clock: clock}
	for _, step := range []struct {
		after time.Duration
		alive bool
	}{{0, true}, {39 * time.Second, true}, {40 * time.Second, false}, {60 * time.Second, false}} {
		clock.SetTime(now.Add(step.after))
		if err := collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := c.Get(t.Context(), client.ObjectKeyFromObject(orphan), &corev1.Pod{})
		if alive := err == nil; alive != step.alive || (err != nil && !apierrors.IsNotFound(err)) {
			t.Errorf("after %v: %v", step.after, err)
		}
	}
}

// What a pod ends with, for its owner and for whoever holds it by a finalizer.
func TestCollect_Status(t *testing.T) {
	earlier := metav1.NewTime(now.Add(-time.Hour))
	for _, tt := range []struct {
		name   string
		before []corev1.PodCondition
		since  metav1.Time
	}{
		{"undisturbed", nil, metav1.NewTime(now)},
		{"to be evicted", []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", LastTransitionTime: earlier}}, earlier},
	} {
		t.Run(tt.name, func(t *testing.T) {
			orphan := pod("p", "gone", corev1.PodRunning, false, 1)
			orphan.Generation, orphan.Finalizers, orphan.Status.Conditions = 3, []string{"test/stay"}, tt.before
			c := controllertest.NewClientBuilder().WithObjects(orphan).WithStatusSubresource(&corev1.Pod{}).Build()
			collector := &Collector{Client: c, Live: c, Clock: clocktesting.NewFakeClock(now), missing: map[string]time.Time{"gone": now.Add(-quarantine)}}
			if err := collector.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(orphan), &got); err != nil {
				t.Fatal(err)
			}
			want := corev1.PodStatus{ObservedGeneration: 3, Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: 3, LastTransitionTime: tt.since,
				Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
			}}}
			if diff := cmp.Diff(want, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// An administrator who deletes the pods of a lost node by force may be faster, and so may be the StatefulSet.
func TestCollect_Replaced(t *testing.T) {
	orphan := pod("p", "gone", corev1.PodRunning, false, 1)
	orphan.UID = "first"
	successor := pod("p", "alive", corev1.PodRunning, false, 0)
	successor.UID = "second"
	for _, before := range []bool{true, false} {
		inner := controllertest.NewClientBuilder().WithObjects(orphan).WithStatusSubresource(&corev1.Pod{}).Build()
		// A list has the pod that was there when the pass began.
		c := interceptor.NewClient(inner, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if found, ok := list.(*corev1.PodList); ok {
				found.Items = []corev1.Pod{*orphan}
				return nil
			}
			return c.List(ctx, list, opts...)
		}})
		if before {
			if err := errors.Join(inner.Delete(t.Context(), orphan.DeepCopy()), inner.Create(t.Context(), successor.DeepCopy())); err != nil {
				t.Fatal(err)
			}
		} else {
			c = controllertest.Replaced(c, successor)
		}
		clock := clocktesting.NewFakeClock(now)
		collector := &Collector{Client: c, Live: inner, Clock: clock}
		for range 2 {
			if err := collector.Collect(t.Context()); err != nil {
				t.Errorf("replaced before the write: %t: %v", before, err)
			}
			clock.Step(quarantine)
		}
		var left corev1.Pod
		if err := inner.Get(t.Context(), client.ObjectKeyFromObject(orphan), &left); err != nil || left.UID != "second" || left.Status.Phase != corev1.PodRunning {
			t.Errorf("replaced before the write: %t: there is %q, %s, with the error %v", before, left.UID, left.Status.Phase, err)
		}
	}
}

// With many pods on lost nodes a pass would take minutes if one waited for the other.
func TestCollect_Parallel(t *testing.T) {
	const atOnce = 10
	var objects []client.Object
	for i := range 3 * atOnce {
		objects = append(objects, pod(fmt.Sprintf("p-%d", i), "", corev1.PodFailed, false, 1))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	// No deletion ends before ten have begun.
	var begun sync.WaitGroup
	begun.Add(atOnce)
	var count atomic.Int64
	c := interceptor.NewClient(controllertest.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if count.Add(1) <= atOnce {
				begun.Done()
			}
			all := make(chan struct{})
			go func() { begun.Wait(); close(all) }()
			select {
			case <-all:
				return c.Delete(ctx, obj, opts...)
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	collector := &Collector{Client: c, Live: c, Clock: clocktesting.NewFakeClock(now), Threshold: 1}
	if err := collector.Collect(ctx); err != nil {
		t.Fatal(err)
	}
	var left corev1.PodList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 1 {
		t.Errorf("%d are left, %v", len(left.Items), err)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

func TestNextLook(t *testing.T) {
	t.Parallel()
	hour := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		name     string
		wake     time.Time
		due      time.Duration
		min, max time.Duration
	}{
		{name: "never", due: -1},
		{name: "now", wake: time.Unix(1, 0), due: -1, min: time.Millisecond, max: time.Millisecond},
		{name: "the wait", wake: hour, due: -1, min: 59 * time.Minute, max: time.Hour},
		{name: "the status", due: time.Minute, min: time.Minute, max: time.Minute},
		{name: "the status at once", due: 0, min: time.Millisecond, max: time.Millisecond},
		{name: "the status first", wake: hour, due: time.Minute, min: time.Minute, max: time.Minute},
		{name: "the wait first", wake: hour, due: 2 * time.Hour, min: 59 * time.Minute, max: time.Hour},
	} {
		if got := nextLook(tt.wake, tt.due); got < tt.min || got > tt.max {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestStatusCanWait(t *testing.T) {
	t.Parallel()
	call := engine.Turn{Actions: []engine.Action{{}}}
	for _, tt := range []struct {
		name string
		turn engine.Turn
		of   func(*execution)
		want bool
	}{
		{name: "a call", turn: call, want: true},
		{name: "more to do", turn: engine.Turn{Again: true}, want: true},
		{name: "a wait", turn: engine.Turn{Wake: time.Now()}},
		{name: "the end", turn: call, of: func(x *execution) { x.state.End = &engine.End{} }},
		{name: "the beginning", turn: call, of: func(x *execution) { x.object.Status.Journal = nil }},
		{name: "after a wait", turn: call, of: func(x *execution) { x.object.Status.Phase = workflowsv1alpha1.PhaseWaiting }},
		{name: "a while ago", turn: call, of: func(x *execution) { x.told = x.told.Add(-statusInterval) }},
		{name: "another process", turn: call, of: func(x *execution) { x.told = time.Time{} }},
	} {
		x := &execution{state: &engine.State{}, told: time.Now(), object: &workflowsv1alpha1.WorkflowRun{Status: workflowsv1alpha1.WorkflowRunStatus{
			Phase: workflowsv1alpha1.PhaseRunning, Journal: &workflowsv1alpha1.Journal{},
		}}}
		if tt.of != nil {
			tt.of(x)
		}
		if got := x.statusCanWait(tt.turn); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// quick has tasks that go on at once, more than are gone through between two writes, and then others.
func quick(others string) string {
	return fmt.Sprintf(`"do": [{"a": {"for": {"in": "[range(%d)]"}, "do": [{"b": {"set": "${ $item }"}}]}}%s]`, 3*batch, others)
}

// A process that is killed between two writes of the status goes on with what was written ahead of it, and no task is missing in the status.
func TestWrite_Ahead(t *testing.T) {
	t.Parallel()
	statuses := 0
	w := newWorld(t, quick(`, {"c": {"wait": {"minutes": 1}}}`), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if statuses++; statuses == 2 {
				return apierrors.NewServiceUnavailable("killed")
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
	})
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err == nil {
		t.Fatalf("%d writes of the status, and no error", statuses)
	}
	var before workflowsv1alpha1.WorkflowRun
	if err := w.client.Get(t.Context(), w.key, &before); err != nil {
		t.Fatal(err)
	}
	w.live = map[types.NamespacedName]*execution{} // another process
	x, _, err := w.execution(t.Context(), w.key, &before)
	if err != nil {
		t.Fatal(err)
	}
	if x.revision <= revision(&before) || x.state.Steps <= int(before.Status.Steps) || len(x.log) == 0 {
		t.Errorf("it goes on from revision %d, step %d with %d tasks; the status has revision %d, step %d",
			x.revision, x.state.Steps, len(x.log), revision(&before), before.Status.Steps)
	}
	after := w.look()
	if after.Status.Phase != workflowsv1alpha1.PhaseWaiting || revision(after) <= x.revision-1 || len(after.Status.History) != historyLength {
		t.Errorf("%s, revision %d, %d tasks", after.Status.Phase, revision(after), len(after.Status.History))
	}
}

// Who finds that another process has written ahead of the status goes on with that; at the end nothing is left.
func TestWrite_AheadByAnother(t *testing.T) {
	t.Parallel()
	aheads := 0
	w := newWorld(t, quick(""), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if m, ok := o.(*corev1.ConfigMap); ok {
				if aheads++; aheads == 1 {
					other := m.DeepCopy()
					other.Annotations = map[string]string{"by": "another"}
					if err := c.Update(ctx, other); err != nil {
						return err
					}
				}
			}
			return c.Update(ctx, o, options...)
		},
	})
	run := w.look()
	for range 5 {
		if run.Status.Phase.Finished() {
			break
		}
		run = w.look()
	}
	var left corev1.ConfigMapList
	if err := w.client.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	if aheads == 0 || run.Status.Phase != workflowsv1alpha1.PhaseCompleted || len(left.Items) > 0 {
		t.Errorf("%d writes ahead, %s, left %d ConfigMaps", aheads, run.Status.Phase, len(left.Items))
	}
}

// A run goes on where no ConfigMap may be made for it.
func TestWrite_AheadForbidden(t *testing.T) {
	t.Parallel()
	asked := 0
	w := newWorld(t, quick(""), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, ok := o.(*corev1.ConfigMap); ok {
				asked++
				return apierrors.NewForbidden(corev1.Resource("configmaps"), o.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, o, options...)
		},
	})
	if run := w.look(); asked == 0 || run.Status.Phase != workflowsv1alpha1.PhaseCompleted {
		t.Errorf("%d ConfigMaps refused, %s", asked, run.Status.Phase)
	}
}

// What is ahead of a status is written there soon, also if nothing happens any more.
func TestWrite_StatusIsDue(t *testing.T) {
	t.Parallel()
	x := &execution{told: time.Now(), revision: 2, object: &workflowsv1alpha1.WorkflowRun{
		Status: workflowsv1alpha1.WorkflowRunStatus{Journal: &workflowsv1alpha1.Journal{Revision: 1}},
	}}
	if due := x.statusDueIn(); due <= 0 || due > statusInterval {
		t.Errorf("due in %v", due)
	}
	x.told = x.told.Add(-statusInterval)
	if due := x.statusDueIn(); due != 0 {
		t.Errorf("due in %v, and it is late", due)
	}
	x.revision = 1
	if due := x.statusDueIn(); due >= 0 {
		t.Errorf("due in %v, and nothing is ahead", due)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
)

// world is a run with the controller that takes it as far as it goes.
type world struct {
	*Reconciler

	t   *testing.T
	key types.NamespacedName
}

func newWorld(t *testing.T, document string, funcs interceptor.Funcs, others ...client.Object) *world {
	t.Helper()
	run := &workflowsv1alpha1.WorkflowRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "0123456789"},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Definition: &apiextensionsv1.JSON{Raw: fmt.Appendf(nil,
			`{"document": {"dsl": "1.0.3", "namespace": "ns", "name": "w", "version": "1.0.0"}, %s}`, document)}},
	}
	c := objects(t, funcs, append(others, run)...)
	return &world{
		t: t, key: client.ObjectKeyFromObject(run),
		Reconciler: &Reconciler{
			client: c, reader: c, journals: journals{client: c, reader: c}, recorder: events.NewFakeRecorder(10), lifetime: t.Context(),
			live: map[types.NamespacedName]*execution{},
		},
	}
}

// look has the run looked at, and returns what it is then.
func (w *world) look() *workflowsv1alpha1.WorkflowRun {
	w.t.Helper()
	if _, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
		w.t.Fatal(err)
	}
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := w.client.Get(w.t.Context(), w.key, run); err != nil {
		w.t.Fatal(err)
	}
	return run
}

// send gives the run an event, as an emit task does.
func (w *world) send(kind string, id int) {
	w.t.Helper()
	if err := w.emit(w.t.Context(), "ns", map[string]any{"specversion": "1.0", "type": kind, "source": "s", "id": fmt.Sprint(id)}); err != nil {
		w.t.Fatal(err)
	}
	if n := len(w.recorder.(*events.FakeRecorder).Events); n > 0 {
		w.t.Fatalf("event %d was lost", id)
	}
}

// A run that listens for ever has room for events for ever, whatever else is sent to it, and takes none twice.
func TestPrune(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `"do": [{"a": {"listen": {"to": {"one": {"with": {"type": "x"}}}}, "then": "a"}}]`, interceptor.Funcs{})
	w.look()
	const many = maxEvents + 100
	for i := range many {
		w.send([]string{"x", "of somebody else"}[i%2], i)
		if run := w.look(); len(run.Spec.Events) > pruneAt {
			t.Fatalf("it has %d events", len(run.Spec.Events))
		}
	}
	before := w.look().Status.Steps
	if before != many/2+1 {
		t.Errorf("it has taken %d steps", before)
	}
	w.send("x", many-4) // once more
	if after := w.look().Status.Steps; after != before {
		t.Errorf("it has taken %d steps, then %d", before, after)
	}
}

// What is in a Secret is read when it is needed, and not kept; a right that is taken away meanwhile is waited for.
func TestReconcile_Secrets(t *testing.T) {
	t.Parallel()
	allowed := true
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte("old")}}
	w := newWorld(t, `"use": {"secrets": ["s"]}, "do": [{"a": {"listen": {"to": {"one": {"with": {"type": "x"}}}}}}, {"b": {"set": {"v": "${ $secrets.s.k }"}}}]`,
		interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, secret := o.(*corev1.Secret); secret && !allowed {
				return apierrors.NewForbidden(corev1.Resource("secrets"), "s", errors.New("not yours"))
			}
			return c.Get(ctx, key, o, options...)
		}}, secret)
	phases := func(want workflowsv1alpha1.Phase) *workflowsv1alpha1.WorkflowRun {
		t.Helper()
		run := w.look()
		if run.Status.Phase != want {
			t.Fatalf("it is %s, want %s: %+v", run.Status.Phase, want, run.Status)
		}
		return run
	}
	phases(workflowsv1alpha1.PhaseWaiting)
	if kept := w.live[w.key].secrets; kept != nil {
		t.Errorf("it keeps %v", kept)
	}
	allowed = false
	phases(workflowsv1alpha1.PhasePending)
	allowed = true
	phases(workflowsv1alpha1.PhaseWaiting)
	secret.Data["k"] = []byte("new")
	if err := w.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.send("x", 1)
	if run := phases(workflowsv1alpha1.PhaseCompleted); string(run.Status.Output.Raw) != `{"v":"new"}` {
		t.Errorf("it comes to %s", run.Status.Output.Raw)
	}
}

// A run whose Secret is gone on its way has an end, and does not go on without.
func TestReconcile_SecretGone(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}
	w := newWorld(t, `"use": {"secrets": ["s"]}, "do": [{"a": {"listen": {"to": {"one": {"with": {"type": "x"}}}}}}]`, interceptor.Funcs{}, secret)
	w.look()
	if err := w.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if run := w.look(); run.Status.Phase != workflowsv1alpha1.PhaseFaulted || run.Status.Error.Status != 403 {
		t.Errorf("got %+v", run.Status)
	}
}

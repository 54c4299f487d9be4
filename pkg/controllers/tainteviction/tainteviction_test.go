// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tainteviction

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/machinetest"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	taint   = corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p"}}
)

func pod(tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n", Tolerations: tolerations}}
}

func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
}

func tolerate(seconds *int64) corev1.Toleration {
	return corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}
}

func TestTolerance(t *testing.T) {
	tests := []struct {
		name        string
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		limit       time.Duration
		forever     bool
	}{
		{name: "no taint", forever: true},
		{name: "not tolerated", taints: []corev1.Taint{taint}},
		{name: "forever", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(nil)}, forever: true},
		{name: "for a while", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(ptr.To[int64](60))}, limit: time.Minute},
		{name: "longer than can be counted", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(ptr.To[int64](math.MaxInt64))}, limit: time.Duration(longest) * time.Second},
		{name: "the first counts", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(ptr.To[int64](60)), tolerate(ptr.To[int64](30))}, limit: time.Minute},
		{name: "the first is for ever", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(nil), tolerate(ptr.To[int64](30))}, forever: true},
		{name: "the shortest of two taints", taints: []corev1.Taint{taint, {Key: "x", Effect: corev1.TaintEffectNoExecute}},
			tolerations: []corev1.Toleration{tolerate(ptr.To[int64](60)), {Key: "x", Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](30)}}, limit: 30 * time.Second},
		{name: "negative", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(ptr.To[int64](-1))}},
		{name: "one of two taints", taints: []corev1.Taint{taint, {Key: "x", Effect: corev1.TaintEffectNoExecute}}, tolerations: []corev1.Toleration{tolerate(nil)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit, forever := Tolerance(tt.taints, tt.tolerations)
			if limit != tt.limit || forever != tt.forever {
				t.Errorf("got %v, %v", limit, forever)
			}
		})
	}
}

func TestReconciler(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{pod(), node(taint)},
		Request: request,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(now)}
		},
		Want: func(ctx context.Context, c client.Client) error {
			if err := c.Get(ctx, request.NamespacedName, &corev1.Pod{}); !apierrors.IsNotFound(err) {
				return errors.New("the pod is still there")
			}
			return nil
		},
	})
}

func TestReconcile_Timer(t *testing.T) {
	c := controllertest.NewClientBuilder().WithObjects(pod(tolerate(ptr.To[int64](60))), node(taint)).WithStatusSubresource(&corev1.Pod{}).Build()
	clock := clocktesting.NewFakePassiveClock(now)
	events := record.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Events: events, Clock: clock}
	result, err := r.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter != time.Minute {
		t.Fatalf("result %v, error %v", result, err)
	}
	var n corev1.Node
	if err := c.Get(t.Context(), types.NamespacedName{Name: "n"}, &n); err != nil {
		t.Fatal(err)
	}
	n.Spec.Taints = nil
	if err := c.Update(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if got := <-events.Events; !strings.HasPrefix(got, "Normal TaintManagerEviction Cancelling deletion of Pod ns/p") {
		t.Errorf("event %q", got)
	}
	n.Spec.Taints = []corev1.Taint{taint}
	if err := c.Update(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{0, 59 * time.Second} {
		clock.SetTime(now.Add(step))
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), request.NamespacedName, &corev1.Pod{}); err != nil {
			t.Fatalf("evicted after %v: %v", step, err)
		}
	}
	clock.SetTime(now.Add(time.Minute))
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), request.NamespacedName, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is still there: %v", err)
	}
}

// Of a pod that waits for its time it is told that it need not wait any more, whatever the reason.
func TestReconcile_Cancelled(t *testing.T) {
	const cancelled, marked = "Normal TaintManagerEviction Cancelling deletion of Pod ns/p", "Normal TaintManagerEviction Marking for deletion Pod ns/p"
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute}
	for _, tt := range []struct {
		name string
		then func(context.Context, client.Client) error
		want []string
	}{
		{"the taint is gone", func(ctx context.Context, c client.Client) error { return c.Update(ctx, node()) }, []string{cancelled}},
		{"the pod is gone", func(ctx context.Context, c client.Client) error { return c.Delete(ctx, pod()) }, []string{cancelled}},
		{"another taint is not tolerated", func(ctx context.Context, c client.Client) error { return c.Update(ctx, node(taint, other)) }, []string{cancelled, marked}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := controllertest.NewClientBuilder().WithObjects(pod(tolerate(ptr.To[int64](60))), node(taint)).WithStatusSubresource(&corev1.Pod{}).Build()
			events := record.NewFakeRecorder(10)
			r := &Reconciler{Client: c, Events: events, Clock: clocktesting.NewFakePassiveClock(now)}
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if err := tt.then(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}
			close(events.Events)
			var got []string
			for e := range events.Events {
				got = append(got, e)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod that is tolerated for an hour is not evicted at once because the node gets another taint that it tolerates for five minutes.
func TestReconcile_FurtherTaint(t *testing.T) {
	later := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	hour := tolerate(ptr.To[int64](3600))
	minutes := corev1.Toleration{Key: later.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)}
	c := controllertest.NewClientBuilder().WithObjects(pod(hour, minutes), node(taint)).WithStatusSubresource(&corev1.Pod{}).Build()
	clock := clocktesting.NewFakePassiveClock(now)
	r := &Reconciler{Client: c, Events: &record.FakeRecorder{}, Clock: clock}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	later.TimeAdded = &metav1.Time{Time: now.Add(20 * time.Minute)}
	if err := c.Update(t.Context(), node(taint, later)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{20 * time.Minute, 59 * time.Minute, time.Hour} {
		clock.SetTime(now.Add(step))
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), request.NamespacedName, &corev1.Pod{}); apierrors.IsNotFound(err) != (step == time.Hour) {
			t.Fatalf("after %v: %v", step, err)
		}
	}
}

// A pod that is tolerated for a while is so for as long, whatever is done to the clock on the wall meanwhile.
func TestReconcile_ClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		began := time.Now()
		tainted := taint
		tainted.TimeAdded = &metav1.Time{Time: began.Round(0)}
		c := controllertest.NewClientBuilder().WithObjects(pod(tolerate(ptr.To[int64](60))), node(tainted)).WithStatusSubresource(&corev1.Pod{}).Build()
		clock := clocktesting.NewFakePassiveClock(began)
		r := &Reconciler{Client: c, Events: &record.FakeRecorder{}, Clock: clock}
		for _, step := range []struct {
			at   time.Time
			left time.Duration
		}{{began, time.Minute}, {machinetest.ClockSet(began.Add(20*time.Second), by), 40 * time.Second}, {machinetest.ClockSet(began.Add(time.Minute), by), 0}} {
			clock.SetTime(step.at)
			result, err := r.Reconcile(t.Context(), request)
			if err != nil || result.RequeueAfter.Round(2*time.Second) != step.left {
				t.Errorf("set by %s, at %s: %v, %v, want %s", by, step.at, result, err, step.left)
			}
			if err := c.Get(t.Context(), request.NamespacedName, &corev1.Pod{}); apierrors.IsNotFound(err) != (step.left == 0) {
				t.Errorf("set by %s, at %s: the pod: %v", by, step.at, err)
			}
		}
	}
}

// A taint concerns the pods of its node, whatever else there is.
func TestPodsOn(t *testing.T) {
	elsewhere, waiting := pod(), pod()
	elsewhere.Name, elsewhere.Spec.NodeName = "elsewhere", "other"
	waiting.Name, waiting.Spec.NodeName = "waiting", ""
	listed := 0
	c := controllertest.Counting(controllertest.NewClientBuilder().WithObjects(pod(), elsewhere, waiting).Build(), &listed)
	requests := (&Reconciler{Client: c}).podsOn(t.Context(), node(taint))
	if len(requests) != 1 || requests[0] != request || listed != 1 {
		t.Errorf("concerns %v; looked at %d pods", requests, listed)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func in(group string) pt.PodOption {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} }
}

// grouped has pods be tried with all others of their group that the queue knows.
func (q *Queue) grouped() {
	q.cfg.Group = func(pod *corev1.Pod) (out []types.UID) {
		name, ok := framework.GroupOf(pod)
		if !ok {
			return nil
		}
		for uid, p := range q.all {
			if other, ok := framework.GroupOf(p.Pod); ok && other == name {
				out = append(out, uid)
			}
		}
		return out
	}
}

// newGroup returns a queue with n pods of a group, which are in flight.
func newGroup(t *testing.T, n int) (*Queue, *clocktesting.FakeClock, []*Pod) {
	t.Helper()
	q, clock := newQueue()
	q.grouped()
	for i := range n {
		q.Add(t.Context(), pt.Pod(fmt.Sprint("p", i), in("g")))
	}
	return q, clock, q.popAll(t)
}

// popAll pops a pod and takes the others of its group, as a try of it does.
func (q *Queue) popAll(t *testing.T) []*Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p := q.Pop(ctx)
	if p == nil {
		t.Fatal("nothing is popped")
	}
	return append([]*Pod{p}, q.Take(ctx, q.cfg.Group(p.Pod))...)
}

func (q *Queue) failAll(t *testing.T, pods []*Pod, rejectedBy sets.Set[string]) {
	t.Helper()
	q.GroupFailed(pods[0], rejectedBy.Len() > 0)
	for _, p := range pods {
		q.Fail(t.Context(), p, p.Pod, rejectedBy)
	}
}

// A group that was tried in vain is tried again without any event, later each time, and its limit is that of a pod times the root of how
// many pods it has (upstream's TestPriorityQueue_AddAttemptedPodGroupIfNeeded and calculateBackoffDuration).
func TestGroup_BacksOff(t *testing.T) {
	for _, tc := range []struct {
		name       string
		pods       int
		rejectedBy sets.Set[string]
		want       []time.Duration
	}{
		{"rejected", 4, sets.New("none"), []time.Duration{1, 2, 4, 8, 16, 20, 20}},
		{"failed", 4, nil, []time.Duration{1, 2, 4, 8, 16, 20, 20}},
		{"of one pod", 1, sets.New("none"), []time.Duration{1, 2, 4, 8, 10, 10}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, clock, pods := newGroup(t, tc.pods)
			for i, want := range tc.want {
				q.failAll(t, pods, tc.rejectedBy)
				q.expect(t, 0, tc.pods, 0, 0)
				for _, p := range pods {
					if got := p.backoffEnd.Sub(clock.Now()); got != want*time.Second {
						t.Fatalf("after failure %d %s backs off for %v, want %v", i+1, p.Pod.Name, got, want*time.Second)
					}
				}
				clock.Step(want*time.Second - time.Millisecond)
				q.flush(t.Context())
				q.expect(t, 0, tc.pods, 0, 0)
				clock.Step(time.Millisecond)
				q.flush(t.Context())
				q.expect(t, tc.pods, 0, 0, 0)
				pods = q.popAll(t)
			}
			if len(pods) != tc.pods {
				t.Errorf("%d pods are tried, want all %d", len(pods), tc.pods)
			}
		})
	}
}

// What happened to a group before it failed internally does not lengthen that back-off, and the other way round.
func TestGroup_ErrorsCountByThemselves(t *testing.T) {
	q, clock, pods := newGroup(t, 2)
	for _, step := range []struct {
		rejectedBy sets.Set[string]
		want       time.Duration
	}{{sets.New("none"), 1}, {sets.New("none"), 2}, {nil, 1}, {nil, 2}, {sets.New("none"), 4}} {
		q.failAll(t, pods, step.rejectedBy)
		if got := pods[0].backoffEnd.Sub(clock.Now()); got != step.want*time.Second {
			t.Fatalf("it backs off for %v, want %v", got, step.want*time.Second)
		}
		clock.Step(step.want * time.Second)
		q.flush(t.Context())
		pods = q.popAll(t)
	}
}

// What comes while a group is tried in vain, or backs off, has no try of its own: it would be one of the whole group.
func TestGroup_NewPodsBackOff(t *testing.T) {
	q, clock, pods := newGroup(t, 2)
	q.Add(t.Context(), pt.Pod("meanwhile", in("g")))
	q.expect(t, 1, 0, 0, 0)
	q.failAll(t, pods, sets.New("none"))
	q.expect(t, 0, 3, 0, 0)
	q.Add(t.Context(), pt.Pod("later", in("g")))
	q.Add(t.Context(), pt.Pod("alone"))
	q.Add(t.Context(), pt.Pod("other", in("h")))
	q.expect(t, 2, 4, 0, 0)
	q.Done(q.mustPop(t, "alone"))
	q.Done(q.mustPop(t, "other"))
	clock.Step(time.Second)
	q.flush(t.Context())
	q.expect(t, 4, 0, 0, 0)
}

// A pod that comes while its group backs off and is held back holds it back; that it is not any more does not shorten the back-off.
func TestGroup_HeldBackWhileItBacksOff(t *testing.T) {
	q, clock, pods := newGroup(t, 2)
	q.failAll(t, pods, sets.New("none"))
	held := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }
	q.Add(t.Context(), pt.Pod("held", in("g"), held))
	q.expect(t, 0, 2, 0, 1)
	q.Update(t.Context(), pt.Pod("held", in("g")))
	q.expect(t, 0, 3, 0, 0)
	q.Update(t.Context(), pt.Pod("held", in("g"), held))
	clock.Step(time.Second)
	q.flush(t.Context())
	q.expect(t, 0, 0, 0, 3)
	q.Update(t.Context(), pt.Pod("held", in("g")))
	q.expect(t, 3, 0, 0, 0)
}

// An event that helps one pod of a group has the group be tried when there is nothing else to do, and who activates a pod means it.
func TestGroup_TriedBeforeItsTime(t *testing.T) {
	for _, tc := range []struct {
		name            string
		rejectedBy      sets.Set[string]
		do              func(context.Context, *Queue)
		active, backoff int
		tried           bool
	}{
		{"an event that helps", sets.New("node"), func(ctx context.Context, q *Queue) { q.Move(ctx, nodeAdded, nil, true) }, 0, 2, true},
		{"one that does not", sets.New("node"), func(ctx context.Context, q *Queue) { q.Move(ctx, nodeAdded, nil, false) }, 0, 2, false},
		{"any, after an error", nil, func(ctx context.Context, q *Queue) { q.Move(ctx, nodeAdded, nil, true) }, 0, 2, false},
		{"activated", sets.New("none"), func(ctx context.Context, q *Queue) {
			q.Activate(ctx, map[string]*corev1.Pod{"": pt.Pod("p1", in("g"))})
		}, 1, 1, true},
		{"changed so that it helps", sets.New("gates"), func(ctx context.Context, q *Queue) {
			q.all["p1"].Pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
			q.Update(ctx, pt.Pod("p1", in("g")))
		}, 0, 2, true},
		{"one of them is gone", sets.New("none"), func(ctx context.Context, q *Queue) { q.Delete(ctx, "p1") }, 0, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, _, pods := newGroup(t, 2)
			q.failAll(t, pods, tc.rejectedBy)
			tc.do(t.Context(), q)
			q.expect(t, tc.active, tc.backoff, 0, 0)
			if !tc.tried {
				if q.heap.active.Len()+q.heap.backoff.Len() > 0 {
					t.Error("a pod would be popped")
				}
				return
			}
			if n := len(q.popAll(t)); n != 2 {
				t.Errorf("%d pods are tried, want 2", n)
			}
			q.Add(t.Context(), pt.Pod("new", in("g")))
			q.expect(t, 1, 0, 0, 0) // the back-off is over
		})
	}
}

// A group that was placed is as one that never failed.
func TestGroup_Placed(t *testing.T) {
	q, clock, pods := newGroup(t, 2)
	for range 3 {
		q.failAll(t, pods, sets.New("none"))
		clock.Step(10 * time.Second)
		q.flush(t.Context())
		pods = q.popAll(t)
	}
	q.GroupPlaced(pods[0])
	q.Done(pods[0])
	q.Again(t.Context(), pods[1], pods[1].Pod)
	q.expect(t, 1, 0, 0, 0)
	pods = q.popAll(t)
	q.failAll(t, pods, sets.New("none"))
	if got := pods[0].backoffEnd.Sub(clock.Now()); got != time.Second {
		t.Errorf("it backs off for %v, want 1s", got)
	}
	q.Delete(t.Context(), pods[0].Pod.UID)
	if len(q.groups) != 0 {
		t.Error("a group without pods is remembered")
	}
}

// The room that a pod gives up is for others than those that are tried with it: they would be tried without end.
func TestGroup_Free(t *testing.T) {
	q, _, pods := newGroup(t, 2)
	q.cfg.Events = func(*corev1.Pod) map[string][]fwk.ClusterEventWithHint {
		return map[string][]fwk.ClusterEventWithHint{"room": {{Event: podGone}}}
	}
	q.failAll(t, pods, sets.New("room"))
	for _, p := range []*corev1.Pod{pt.Pod("alone"), pt.Pod("other", in("h"))} {
		q.Add(t.Context(), p)
		q.failAll(t, q.popAll(t), sets.New("room"))
	}
	q.expect(t, 0, 3, 1, 0)
	q.Free(t.Context(), pods[0].Pod)
	if q.all["p0"].place != resting || q.all["p1"].place != resting {
		t.Error("a pod of the group is tried before its time")
	}
	if q.all["alone"].place != backoff || q.all["other"].place != backoff {
		t.Error("a pod that may have the room is not tried")
	}
	q.Move(t.Context(), podGone, pods[0].Pod, nil) // it is gone for good
	if q.all["p1"].place != backoff {
		t.Error("the rest of the group may not have the room of a pod that is gone")
	}
}

// A pod whose binding failed goes back to its group, which need not have failed: it is tried again after its own back-off.
func TestGroup_OneFails(t *testing.T) {
	q, clock, pods := newGroup(t, 2)
	q.GroupPlaced(pods[0])
	q.Done(pods[0])
	q.Land(pods[1])
	q.Fail(t.Context(), pods[1], pods[1].Pod, nil)
	q.expect(t, 0, 1, 0, 0)
	clock.Step(time.Second)
	q.flush(t.Context())
	q.expect(t, 1, 0, 0, 0)
}

// While a large group arrives it is not looked through for each of its pods at each event.
func TestGroup_Arrives(t *testing.T) {
	const n = 100
	q, _ := newQueue()
	q.grouped()
	asked, group := 0, q.cfg.Group
	q.cfg.Group = func(pod *corev1.Pod) []types.UID {
		asked++
		return group(pod)
	}
	q.cfg.PreEnqueue = func(context.Context, *corev1.Pod) *fwk.Status {
		if len(q.all) < n {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithPlugin("gang")
		}
		return nil
	}
	for i := range n {
		pod := pt.Pod(fmt.Sprint("p", i), in("g"))
		q.Add(t.Context(), pod)
		q.Move(t.Context(), fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}, nil, pod)
	}
	q.expect(t, n, 0, 0, 0)
	if asked > 4*n {
		t.Errorf("asked %d times for the group of %d pods", asked, n)
	}
}

// Metrics count a group as one, by the place where it waits, and those of which the object is missing by themselves.
func TestGroup_State(t *testing.T) {
	q, _ := newQueue()
	q.grouped()
	q.cfg.Incomplete = func(p *corev1.Pod) bool { return *p.Spec.SchedulingGroup.PodGroupName == "missing" }
	q.cfg.PreEnqueue = func(_ context.Context, p *corev1.Pod) *fwk.Status {
		if name, ok := framework.GroupOf(p); ok && name.Name != "g" {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithPlugin("gates")
		}
		return nil
	}
	q.cfg.Metrics = metrics.New()
	for _, p := range []*corev1.Pod{
		pt.Pod("p0", in("g")), pt.Pod("p1", in("g")), pt.Pod("m0", in("missing")), pt.Pod("h0", in("held")), pt.Pod("h1", in("held")), pt.Pod("alone"),
	} {
		q.Add(t.Context(), p)
	}
	got := q.State()
	if diff := cmp.Diff(map[string]int{"active": 3, "backoff": 0, "unschedulable": 0, "gated": 2, "incomplete": 1, "pending": 0}, got.Pending); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	for e, n := range got.Entities {
		if n == 0 {
			delete(got.Entities, e)
		}
	}
	want := map[metrics.Entity]int{{Queue: "active", Type: "pod"}: 1, {Queue: "active", Type: "podgroup"}: 1, {Queue: "gated", Type: "podgroup"}: 1}
	if diff := cmp.Diff(want, got.Entities); diff != "" {
		t.Errorf("entities (-want +got):\n%s", diff)
	}
}

// A group comes into a queue once, however many pods it has (upstream's TestIncomingEntitiesMetrics).
func TestGroup_Incoming(t *testing.T) {
	q, _ := newQueue()
	q.grouped()
	q.cfg.Metrics = metrics.New()
	registry := prometheus.NewRegistry()
	if err := q.cfg.Metrics.Register(registry, q.State); err != nil {
		t.Fatal(err)
	}
	q.Add(t.Context(), pt.Pod("alone"))
	q.Done(q.mustPop(t, "alone"))
	for i := range 3 {
		q.Add(t.Context(), pt.Pod(fmt.Sprint("p", i), in("g")))
	}
	q.failAll(t, q.popAll(t), sets.New("none"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "scheduler_queue_incoming_entities_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			got[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"UnscheduledPodAdd active pod": 1, "UnscheduledPodAdd active podgroup": 1, "ScheduleAttemptFailure backoff podgroup": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entities that came (-want +got):\n%s", diff)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

var (
	nodeAdded = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	podGone   = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
)

// newQueue returns a queue in which plugin "node" is helped by new nodes whose
// hint object is true, "none" by nothing, and gates hold pods back.
func newQueue() (*Queue, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	return New(Config{
		Clock: clock,
		PreEnqueue: func(_ context.Context, p *corev1.Pod) *fwk.Status {
			if len(p.Spec.SchedulingGates) > 0 {
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "gated").WithPlugin("gates")
			}
			return nil
		},
		Less: func(a, b fwk.QueuedEntityInfo) bool {
			if pa, pb := a.GetPriority(), b.GetPriority(); pa != pb {
				return pa > pb
			}
			return a.GetTimestamp().Before(b.GetTimestamp())
		},
		Events: func(*corev1.Pod) map[string][]fwk.ClusterEventWithHint {
			return map[string][]fwk.ClusterEventWithHint{
				"node":  {{Event: nodeAdded, QueueingHintFn: framework.Hint(func(_ *corev1.Pod, _, new any) bool { return new == true })}},
				"none":  nil,
				"gates": {{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodSchedulingGatesEliminated}}},
			}
		},
	}), clock
}

func (q *Queue) mustPop(t *testing.T, want string) *Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p := q.Pop(ctx)
	if p == nil || p.Pod.Name != want {
		t.Fatalf("popped %v, want %s", p, want)
	}
	return p
}

func (q *Queue) expect(t *testing.T, active, backoff, unschedulable, gated int) {
	t.Helper()
	want := map[string]int{"active": active, "backoff": backoff, "unschedulable": unschedulable, "gated": gated, "incomplete": 0, "pending": 0}
	if diff := cmp.Diff(want, q.State().Pending); diff != "" {
		t.Fatalf("pending pods (-want +got):\n%s", diff)
	}
}

func TestPop_Order(t *testing.T) {
	q, clock := newQueue()
	for _, p := range []*corev1.Pod{pt.Pod("old"), pt.Pod("high", pt.Priority(5)), pt.Pod("young")} {
		q.Add(t.Context(), p)
		clock.Step(time.Second)
	}
	for _, want := range []string{"high", "old", "young"} {
		q.Done(q.mustPop(t, want))
	}
}

func TestPop_EndsWithContext(t *testing.T) {
	q, _ := newQueue()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *Pod)
	go func() { done <- q.Pop(ctx) }()
	cancel()
	if p := <-done; p != nil {
		t.Errorf("popped %v from an empty queue", p)
	}
}

func TestMove(t *testing.T) {
	for _, tc := range []struct {
		name       string
		rejectedBy string
		event      fwk.ClusterEvent
		new        any
		helps      bool
	}{
		{"the declared event", "node", nodeAdded, true, true},
		{"the hint says no", "node", nodeAdded, false, false},
		{"another event", "node", podGone, true, false},
		{"nothing helps", "none", nodeAdded, true, false},
		{"a plugin that declares nothing", "unknown", podGone, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, clock := newQueue()
			q.Add(t.Context(), pt.Pod("p"))
			p := q.mustPop(t, "p")
			q.Fail(t.Context(), p, p.Pod, sets.New(tc.rejectedBy))
			q.expect(t, 0, 0, 1, 0)
			clock.Step(time.Minute)
			q.Move(t.Context(), tc.event, nil, tc.new)
			if tc.helps {
				q.expect(t, 1, 0, 0, 0)
			} else {
				q.expect(t, 0, 0, 1, 0)
			}
		})
	}
}

func TestFail_EventWhileInFlight(t *testing.T) {
	q, _ := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	q.Move(t.Context(), nodeAdded, nil, true) // before the attempt: no help
	p := q.mustPop(t, "p")
	q.Fail(t.Context(), p, p.Pod, sets.New("node"))
	q.expect(t, 0, 0, 1, 0)
	q.Delete(t.Context(), "p")

	q.Add(t.Context(), pt.Pod("q"))
	p = q.mustPop(t, "q")
	q.Move(t.Context(), podGone, nil, nil)
	q.Move(t.Context(), nodeAdded, nil, true)
	q.Fail(t.Context(), p, p.Pod, sets.New("node"))
	q.expect(t, 0, 1, 0, 0)
	if n := len(q.events); n != 0 {
		t.Errorf("%d events are kept although no pod is in flight", n)
	}
}

func TestBackoff(t *testing.T) {
	q, clock := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		p := q.mustPop(t, "p")
		q.Fail(t.Context(), p, p.Pod, nil) // an internal failure
		if got := p.backoffEnd.Sub(clock.Now()); got != want*time.Second {
			t.Fatalf("attempt %d backs off for %v, want %v", p.Attempts, got, want*time.Second)
		}
		q.expect(t, 0, 1, 0, 0)
		// Not a moment too early, and on time.
		clock.SetTime(p.backoffEnd.Add(-time.Millisecond))
		q.flush(t.Context())
		q.expect(t, 0, 1, 0, 0)
		clock.SetTime(p.backoffEnd)
		q.flush(t.Context())
		q.expect(t, 1, 0, 0, 0)
	}
}

func TestRun_EndsBackoff(t *testing.T) {
	q, clock := newQueue()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.Run(ctx)
	}()
	q.Add(t.Context(), pt.Pod("p"))
	p := q.mustPop(t, "p")
	q.Fail(t.Context(), p, p.Pod, nil)
	popped := make(chan *Pod)
	go func() { popped <- q.Pop(ctx) }()
	for got := (*Pod)(nil); got == nil; {
		select {
		case got = <-popped:
		default:
			// Run may not have set its timer yet when the clock moves.
			clock.Step(100 * time.Millisecond)
		}
	}
	cancel()
	<-done
}

func TestBackoff_NotWaitedForWhenIdle(t *testing.T) {
	q, _ := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	p := q.mustPop(t, "p")
	q.Fail(t.Context(), p, p.Pod, sets.New("node"))
	q.Move(t.Context(), nodeAdded, nil, true)
	q.expect(t, 0, 1, 0, 0)
	q.Done(q.mustPop(t, "p"))
	q.expect(t, 0, 0, 0, 0)
}

// A pod that is held back while it backs off is not popped early, whatever there is else to do.
func TestBackoff_HeldBack(t *testing.T) {
	q, _ := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	p := q.mustPop(t, "p")
	q.Fail(t.Context(), p, p.Pod, sets.New("node"))
	q.Move(t.Context(), nodeAdded, nil, true)
	q.expect(t, 0, 1, 0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q.cfg.PreEnqueue = func(context.Context, *corev1.Pod) *fwk.Status {
		cancel() // there is nothing else that Pop could return
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held back").WithPlugin("gates")
	}
	if got := q.Pop(ctx); got != nil {
		t.Errorf("popped %s, which is held back", got.Pod.Name)
	}
	q.expect(t, 0, 0, 0, 1)
}

func TestFlush_AfterFiveMinutes(t *testing.T) {
	q, clock := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	p := q.mustPop(t, "p")
	q.Fail(t.Context(), p, p.Pod, sets.New("none"))
	clock.Step(4 * time.Minute)
	q.flush(t.Context())
	q.expect(t, 0, 0, 1, 0)
	clock.Step(time.Minute)
	q.flush(t.Context())
	q.expect(t, 1, 0, 0, 0)
}

// A plugin that holds a pod back may let go without an event.
func TestFlush_HeldBack(t *testing.T) {
	q, clock := newQueue()
	asked, held := 0, true
	q.cfg.PreEnqueue = func(context.Context, *corev1.Pod) *fwk.Status {
		if asked++; held {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held back").WithPlugin("none")
		}
		return nil
	}
	q.Add(t.Context(), pt.Pod("p"))
	for range 20 {
		clock.Step(30 * time.Second)
		q.flush(t.Context())
	}
	q.expect(t, 0, 0, 0, 1)
	if asked != 3 {
		t.Errorf("asked %d times in ten minutes, want at first and every five", asked)
	}
	held = false
	clock.Step(5 * time.Minute)
	q.flush(t.Context())
	q.expect(t, 1, 0, 0, 0)
}

func TestGates(t *testing.T) {
	q, clock := newQueue()
	gated := pt.Pod("p", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	q.Add(t.Context(), gated)
	q.expect(t, 0, 0, 0, 1)
	clock.Step(time.Hour)
	q.flush(t.Context())
	q.expect(t, 0, 0, 0, 1)
	q.Update(t.Context(), pt.Pod("p"))
	q.expect(t, 1, 0, 0, 0)
	q.Done(q.mustPop(t, "p"))
}

// A pod of a group that is held back holds all back, those that were active too, until it is not or is gone.
func TestGates_OfGroup(t *testing.T) {
	q, _ := newQueue()
	q.cfg.Group = func(*corev1.Pod) []types.UID { return slices.Collect(maps.Keys(q.all)) }
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }
	ctx := t.Context()
	q.Add(ctx, pt.Pod("a"))
	q.expect(t, 1, 0, 0, 0)
	q.Add(ctx, pt.Pod("b", gated))
	q.expect(t, 0, 0, 0, 2)
	q.Add(ctx, pt.Pod("c"))
	q.expect(t, 0, 0, 0, 3)
	q.Update(ctx, pt.Pod("b"))
	q.expect(t, 3, 0, 0, 0)
	q.Add(ctx, pt.Pod("d", gated))
	q.Add(ctx, pt.Pod("e", gated))
	q.expect(t, 0, 0, 0, 5)
	q.Delete(ctx, "d")
	q.expect(t, 0, 0, 0, 4)
	q.Delete(ctx, "e")
	q.expect(t, 3, 0, 0, 0)
}

// A pod that is to be tried again at once keeps its place before younger ones.
func TestAgain(t *testing.T) {
	q, clock := newQueue()
	q.Add(t.Context(), pt.Pod("old"))
	clock.Step(time.Second)
	q.Add(t.Context(), pt.Pod("young"))
	p := q.mustPop(t, "old")
	clock.Step(time.Second)
	q.Again(t.Context(), p, p.Pod)
	q.expect(t, 2, 0, 0, 0)
	q.mustPop(t, "old")
}

func TestDelete(t *testing.T) {
	q, _ := newQueue()
	q.Add(t.Context(), pt.Pod("waiting"))
	q.Delete(t.Context(), "waiting")
	q.expect(t, 0, 0, 0, 0)

	q.Add(t.Context(), pt.Pod("flying"))
	p := q.mustPop(t, "flying")
	q.Delete(t.Context(), "flying")
	q.Fail(t.Context(), p, p.Pod, sets.New("node"))
	q.expect(t, 0, 0, 0, 0)
}

func TestUpdate_WhileInFlight(t *testing.T) {
	q, _ := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	p := q.mustPop(t, "p")
	newer := pt.Pod("p", pt.Labels("a", "b"))
	q.Update(t.Context(), newer)
	q.Fail(t.Context(), p, newer, sets.New("none"))
	q.expect(t, 0, 0, 1, 0)
	if q.all["p"].Pod.Labels["a"] != "b" {
		t.Error("the newer version is lost")
	}
}

// An internal failure keeps its distance, and holds nobody else up.
func TestBackoff_ErrorsHoldNobodyUp(t *testing.T) {
	q, _ := newQueue()
	q.Add(t.Context(), pt.Pod("errored"))
	p := q.mustPop(t, "errored")
	q.Fail(t.Context(), p, p.Pod, nil)
	q.Add(t.Context(), pt.Pod("helped"))
	p = q.mustPop(t, "helped")
	q.Fail(t.Context(), p, p.Pod, sets.New("node"))
	q.Move(t.Context(), nodeAdded, nil, true)
	q.expect(t, 0, 2, 0, 0)
	q.Done(q.mustPop(t, "helped"))
}

// An error counts by itself: a pod does not wait longer for what was the matter with nodes before.
func TestBackoff_ErrorAfterFailures(t *testing.T) {
	q, clock := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	for range 4 {
		p := q.mustPop(t, "p")
		q.Fail(t.Context(), p, p.Pod, sets.New("node"))
		clock.Step(time.Minute)
		q.Move(t.Context(), nodeAdded, nil, true)
	}
	p := q.mustPop(t, "p")
	q.Fail(t.Context(), p, p.Pod, nil)
	if got := p.backoffEnd.Sub(p.Timestamp); got != q.cfg.InitialBackoff {
		t.Errorf("it waits for %v, want %v", got, q.cfg.InitialBackoff)
	}
}

// A pod that has landed fails after all: events are not kept for it, so that any may have been what helps it.
func TestLand_ForgetsEvents(t *testing.T) {
	for _, rejectedBy := range []sets.Set[string]{nil, sets.New("node"), sets.New("none")} {
		q, _ := newQueue()
		q.Add(t.Context(), pt.Pod("p"))
		p := q.mustPop(t, "p")
		q.Move(t.Context(), nodeAdded, nil, true)
		q.Add(t.Context(), pt.Pod("other"))
		other := q.mustPop(t, "other")
		q.Land(p)
		if len(q.events) != 0 {
			t.Error("events are kept for a pod that has its node")
		}
		q.Move(t.Context(), nodeAdded, nil, true)
		q.Fail(t.Context(), p, p.Pod, rejectedBy)
		q.expect(t, 0, 1, 0, 0)
		q.Fail(t.Context(), other, other.Pod, sets.New("node"))
		q.expect(t, 0, 2, 0, 0)
	}
}

// Whatever happens in whatever order, each pod is in one place, events are kept for the pods in flight and for no others, and no pod is
// lost: in the end all that were not deleted or done are popped.
func TestQueue_AnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		q, clock := newQueue()
		q.grouped()
		ctx, made := t.Context(), 0
		want := map[types.UID]bool{} // the pods that there are
		var flying, landed []*Pod
		take := func(from *[]*Pod) *Pod {
			i := random.IntN(len(*from))
			p := (*from)[i]
			*from = slices.Delete(*from, i, i+1)
			return p
		}
		for range 400 {
			switch n := random.IntN(12); {
			case n < 2:
				made++
				pod := pt.Pod(fmt.Sprint(made))
				if g := random.IntN(4); g > 1 { // of two groups, or of none
					in(fmt.Sprint(g))(pod)
				}
				want[pod.UID] = true
				q.Add(ctx, pod)
			case n == 2 && len(want) > 0:
				uid := slices.Sorted(maps.Keys(want))[random.IntN(len(want))]
				delete(want, uid)
				q.Delete(ctx, uid)
			case n == 3:
				q.Move(ctx, nodeAdded, nil, random.IntN(2) == 0)
			case n == 4:
				clock.Step(time.Duration(random.IntN(20)) * time.Second)
				q.flush(ctx)
			case n == 5 && len(want) > 0:
				uid := slices.Sorted(maps.Keys(want))[random.IntN(len(want))]
				if random.IntN(2) == 0 {
					q.Activate(ctx, map[string]*corev1.Pod{"": q.all[uid].Pod})
				} else {
					changed := q.all[uid].Pod.DeepCopy()
					changed.Labels = map[string]string{"changed": fmt.Sprint(made)}
					q.Update(ctx, changed)
				}
			case n < 8 && q.heap.active.Len()+q.heap.backoff.Len() > 0:
				flying = append(flying, q.Pop(ctx))
			case n == 8 && len(flying) > 0:
				p := take(&flying)
				q.Land(p)
				landed = append(landed, p)
			case n > 8:
				from := &flying
				if random.IntN(2) == 0 {
					from = &landed
				}
				if len(*from) == 0 {
					continue
				}
				p := take(from)
				switch random.IntN(4) {
				case 0:
					q.GroupFailed(p, random.IntN(2) == 0)
				case 1:
					q.GroupPlaced(p)
				}
				switch random.IntN(5) {
				case 0:
					q.Done(p)
					delete(want, p.Pod.UID)
				case 1:
					q.Fail(ctx, p, p.Pod, nil) // an error
				case 2:
					q.Again(ctx, p, p.Pod)
				default:
					q.Fail(ctx, p, p.Pod, sets.New([]string{"node", "none"}[random.IntN(2)]))
				}
			}
			q.check(t, want, len(flying))
		}
		for _, p := range slices.Concat(flying, landed) {
			q.Fail(ctx, p, p.Pod, sets.New("none"))
		}
		clock.Step(time.Hour)
		q.flush(ctx)
		for range len(want) {
			p := q.Pop(ctx)
			if !want[p.Pod.UID] {
				t.Fatalf("seed %d: popped %s, which is gone", seed, p.Pod.Name)
			}
			q.Done(p)
			delete(want, p.Pod.UID)
		}
		if len(want)+len(q.all) > 0 {
			t.Fatalf("seed %d: %d pods are lost, %d left", seed, len(want), len(q.all))
		}
	}
}

func (q *Queue) check(t *testing.T, want map[types.UID]bool, flying int) {
	t.Helper()
	if q.flying.Len() != flying {
		t.Fatalf("%d pods are in flight, want %d", q.flying.Len(), flying)
	}
	if flying == 0 && len(q.events) > 0 {
		t.Fatalf("%d events are kept for nobody", len(q.events))
	}
	for e := q.flying.Front(); e != nil; e = e.Next() {
		if start := e.Value.(*Pod).start; start < q.first || start > q.first+uint64(len(q.events)) {
			t.Fatalf("events %d to %d are kept for a pod since %d", q.first, q.first+uint64(len(q.events)), start)
		}
	}
	if len(q.all) != len(want) {
		t.Fatalf("there are %d pods, want %d", len(q.all), len(want))
	}
	places := map[place]int{}
	for uid, p := range q.all {
		if !want[uid] {
			t.Fatalf("pod %s is gone", p.Pod.Name)
		}
		places[p.place]++
	}
	got := []int{q.heap.active.Len(), q.heap.backoff.Len(), q.heap.timed.Len(), len(slices.Collect(q.waiting.all()))}
	say := []int{places[active], places[backoff], places[errored] + places[resting], places[unschedulable] + places[resting]}
	if !slices.Equal(got, say) {
		t.Fatalf("active, backing off, waiting for the time and for events are %v pods, and %v say so", got, say)
	}
	members := map[*group]int{}
	in := map[*group]map[string]int{}
	for _, p := range q.all {
		if p.group == nil {
			continue
		}
		members[p.group]++
		if in[p.group] == nil {
			in[p.group] = map[string]int{}
		}
		in[p.group][p.place.label()]++
	}
	for name, g := range q.groups {
		if g.pods != members[g] || g.pods == 0 {
			t.Fatalf("group %s is said to have %d pods and has %d", name, g.pods, members[g])
		}
		for queue, n := range g.in {
			if n != in[g][queue] {
				t.Fatalf("group %s is said to have %d pods in %s and has %d", name, n, queue, in[g][queue])
			}
		}
	}
	if len(members) != len(q.groups) {
		t.Fatalf("%d groups have pods, and %d are known", len(members), len(q.groups))
	}
}

// Of pods that back off for about as long, the most important one is tried first.
func TestBackoff_Order(t *testing.T) {
	q, clock := newQueue()
	fail := func(name string) {
		p := q.mustPop(t, name)
		q.Fail(t.Context(), p, p.Pod, sets.New("node"))
	}
	q.Add(t.Context(), pt.Pod("late", pt.Priority(3)))
	fail("late")
	q.Move(t.Context(), nodeAdded, nil, true)
	fail("late") // a second time, for two seconds
	for _, p := range []*corev1.Pod{pt.Pod("low", pt.Priority(1)), pt.Pod("high", pt.Priority(2))} {
		q.Add(t.Context(), p)
		fail(p.Name)
		clock.Step(300 * time.Millisecond)
	}
	q.Move(t.Context(), nodeAdded, nil, true)
	q.expect(t, 0, 3, 0, 0)
	for _, want := range []string{"high", "low", "late"} {
		q.Done(q.mustPop(t, want))
	}
}

// What happens to one pod in flight is no help to others, and who is activated is tried again whatever plugins make of it.
func TestHelps_OnePod(t *testing.T) {
	q, _ := newQueue()
	for _, name := range []string{"p", "other"} {
		q.Add(t.Context(), pt.Pod(name))
	}
	p, other := q.mustPop(t, "p"), q.mustPop(t, "other")
	q.Activate(t.Context(), map[string]*corev1.Pod{"default/p": p.Pod})
	q.Fail(t.Context(), p, p.Pod, sets.New("node", "none"))
	q.expect(t, 0, 1, 0, 0)
	q.Fail(t.Context(), other, other.Pod, sets.New("node", "none"))
	q.expect(t, 0, 1, 1, 0)
	p.RejectedBy, other.RejectedBy = sets.New("gates"), sets.New("gates")
	e := happened{fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodSchedulingGatesEliminated}, p.Pod, p.Pod}
	if !q.helps(t.Context(), p, e) || q.helps(t.Context(), other, e) {
		t.Error("a pod without its gates does not help itself, or helps another")
	}
}

func TestActivate(t *testing.T) {
	q, _ := newQueue()
	q.Add(t.Context(), pt.Pod("p"))
	p := q.mustPop(t, "p")
	q.Fail(t.Context(), p, p.Pod, sets.New("none"))
	q.Activate(t.Context(), map[string]*corev1.Pod{"default/p": p.Pod, "default/other": pt.Pod("other")})
	q.expect(t, 1, 0, 0, 0)
}

// BenchmarkDone measures the end of many flights, with an event per pod.
func BenchmarkDone(b *testing.B) {
	const pods = 10_000
	for b.Loop() {
		q, _ := newQueue()
		flying := make([]*Pod, 0, pods)
		for i := range pods {
			q.Add(b.Context(), pt.Pod(fmt.Sprint(i)))
			flying = append(flying, q.Pop(b.Context()))
			q.Move(b.Context(), podGone, nil, nil)
		}
		for _, p := range flying {
			q.Done(p)
		}
	}
}

// TestTake takes pods from all places but the hands of others and from behind gates.
func TestTake(t *testing.T) {
	q, clock := newQueue()
	gated := pt.Pod("gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	for _, p := range []*corev1.Pod{pt.Pod("unschedulable"), pt.Pod("errored"), pt.Pod("flying"), pt.Pod("active"), pt.Pod("high", pt.Priority(5)), gated} {
		q.Add(t.Context(), p)
		clock.Step(time.Second)
	}
	q.Done(q.mustPop(t, "high"))
	for _, rejected := range []sets.Set[string]{sets.New("none"), nil} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		p := q.Pop(ctx)
		cancel()
		q.Fail(t.Context(), p, p.Pod, rejected)
	}
	q.mustPop(t, "flying")
	q.expect(t, 1, 1, 1, 1)
	var names []string
	for _, p := range q.Take(t.Context(), []types.UID{"unschedulable", "errored", "flying", "active", "high", "gated", "unknown"}) {
		names = append(names, p.Pod.Name)
		q.Done(p)
	}
	slices.Sort(names)
	if want := []string{"active", "errored", "unschedulable"}; !slices.Equal(names, want) {
		t.Errorf("took %v, want %v", names, want)
	}
	q.expect(t, 0, 0, 0, 1)
}

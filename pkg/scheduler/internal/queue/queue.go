// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue holds the pods that wait for a node. A pod is active (next to be
// tried, by priority and age), backing off (failed recently) or unschedulable
// (waiting for an event that may help it). Pods of a group back off together. Touch
// it when the order of pods or the moment of a retry changes.
package queue

import (
	"container/list"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// Config says how the queue behaves. All fields without a default are required.
type Config struct {
	Clock clock.WithTicker
	// InitialBackoff is the delay after the first failure. Default 1s.
	InitialBackoff time.Duration
	// MaxBackoff bounds the delay, which doubles with each failure. Default 10s.
	MaxBackoff time.Duration
	// FlushAfter is how long a pod waits for an event at most. Default 5m.
	FlushAfter time.Duration
	// PreEnqueue may hold a pod back; nil lets all pass.
	PreEnqueue func(context.Context, *corev1.Pod) *fwk.Status
	// Group returns the pods that are tried together with a pod, which may be among them. One that is held back holds back all. Nil: each
	// pod is tried by itself.
	Group func(*corev1.Pod) []types.UID
	// Incomplete tells, for metrics, whether the object of a pod's group is missing. Nil: it never is.
	Incomplete func(*corev1.Pod) bool
	// Less orders the active pods.
	Less fwk.LessFunc
	// Events returns the events declared by each plugin of a pod's profile. A plugin
	// that is absent is helped by any event.
	Events func(*corev1.Pod) map[string][]fwk.ClusterEventWithHint
	// Metrics counts what comes into the queue. Default nil: nobody wants to know.
	Metrics *metrics.Metrics
}

// What brings pods into a queue, besides cluster events, in upstream's words.
const (
	podAdded       = "UnscheduledPodAdd"
	podDeleted     = "UnscheduledPodDelete"
	attemptFailed  = "ScheduleAttemptFailure"
	backoffOver    = "BackoffComplete"
	poppedEarly    = "PopFromBackoffQ"
	activated      = "ForceActivate"
	waitedTooLong  = "UnschedulableTimeout"
	podInFlight    = "PodPopped"
	hintSampleRate = 16 // one hint in so many is timed: there is one per waiting pod and event
)

// Queue is a scheduling queue, safe for concurrent use.
type Queue struct {
	cfg  Config
	cond *sync.Cond // its lock guards all that follows
	all  map[types.UID]*Pod
	// waiting are those among all that an event may help: the unschedulable and the resting ones.
	waiting waiting
	groups  map[types.NamespacedName]*group // of the pods among all
	// In timed are the errored and the resting ones.
	heap    struct{ active, backoff, timed pods }
	scanned time.Time // when waiting was last searched for pods to flush
	// events since the oldest pod in flight was popped: such a pod may have been
	// tried against a state in which they had not happened.
	events []happened
	first  uint64     // number of events[0]
	flying *list.List // pods in flight in the order of their start
	wake   chan struct{}
}

// New returns an empty queue. Run must be running for back-offs to end.
func New(cfg Config) *Queue {
	if cfg.InitialBackoff == 0 {
		cfg.InitialBackoff = time.Second
	}
	if cfg.MaxBackoff == 0 {
		cfg.MaxBackoff = 10 * time.Second
	}
	if cfg.FlushAfter == 0 {
		cfg.FlushAfter = 5 * time.Minute
	}
	q := &Queue{
		cfg:     cfg,
		cond:    sync.NewCond(&sync.Mutex{}),
		all:     map[types.UID]*Pod{},
		waiting: waiting{},
		groups:  map[types.NamespacedName]*group{},
		flying:  list.New(),
		wake:    make(chan struct{}, 1),
		scanned: cfg.Clock.Now(),
	}
	q.heap.active.less = func(a, b *Pod) bool { return cfg.Less(a, b) }
	q.heap.timed.less = func(a, b *Pod) bool { return a.backoffEnd.Before(b.backoffEnd) }
	q.heap.backoff.less = func(a, b *Pod) bool {
		if x, y := a.backoffEnd.Truncate(window), b.backoffEnd.Truncate(window); !x.Equal(y) {
			return x.Before(y)
		}
		return cfg.Less(a, b)
	}
	return q
}

// Add puts a new pod into the queue. A pod that is already there is updated.
func (q *Queue) Add(ctx context.Context, pod *corev1.Pod) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	if p := q.all[pod.UID]; p != nil {
		q.update(ctx, p, pod)
		return
	}
	now := q.cfg.Clock.Now()
	p := &Pod{PodInfo: framework.NewPodInfo(pod), Timestamp: now, initial: &now}
	q.enlist(p)
	q.activate(ctx, p, podAdded)
}

// Update replaces a pod by a newer version of it. If the change may help an
// unschedulable pod it is retried.
func (q *Queue) Update(ctx context.Context, pod *corev1.Pod) { q.Add(ctx, pod) }

func (q *Queue) update(ctx context.Context, p *Pod, pod *corev1.Pod) {
	old := p.Pod
	actions := framework.WaitingPodActions(old, pod)
	updated := func(a fwk.ActionType) happened {
		return happened{fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: a}, old, pod}
	}
	switch p.place {
	case inFlight:
		// The running attempt owns p; it takes the newest version when it fails.
		for a := range framework.Single(actions) {
			q.events = append(q.events, updated(a))
		}
		return
	case landed: // so does its binding
		return
	}
	p.PodInfo = p.Renew(pod)
	switch p.place {
	case active:
		q.heap.active.fix(p)
	case backoff:
		q.heap.backoff.fix(p)
	case unschedulable, resting:
		for a := range framework.Single(actions) {
			if e := updated(a); q.helps(ctx, p, e) {
				q.retry(ctx, p, e.event.Label())
				break
			}
		}
	}
}

// Delete removes a pod. Those that it held back are tried.
func (q *Queue) Delete(ctx context.Context, uid types.UID) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	p := q.all[uid]
	if p == nil {
		return
	}
	if p.place == inFlight {
		// Its attempt ends by itself: Done and Fail find that it is gone.
		q.strike(p)
		return
	}
	q.take(p)
	q.strike(p)
	if p.holds() {
		q.letGo(ctx, q.group(p), podDeleted)
	}
}

// Pop waits for the next pod. The pod is in flight until Done, Fail or Again is called.
// It returns nil when ctx ends.
func (q *Queue) Pop(ctx context.Context) *Pod {
	stop := context.AfterFunc(ctx, func() {
		q.cond.L.Lock()
		defer q.cond.L.Unlock()
		q.cond.Broadcast()
	})
	defer stop()
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	for {
		if ctx.Err() != nil {
			return nil
		}
		if p := q.heap.active.peek(); p != nil {
			q.take(p)
			q.fly(p)
			return p
		}
		if p := q.heap.backoff.peek(); p != nil {
			// Nothing else to do: a pod that an event may have helped need not
			// wait (KEP-5142), unless it is held back, as while its victims are
			// asked to go. Internal failures keep their distance.
			q.take(p)
			q.endRest(p)
			q.activate(ctx, p, poppedEarly)
			continue
		}
		q.cond.Wait()
	}
}

// Take pops pods in the order of the queue, wherever they are in it, but those that
// a PreEnqueue plugin holds back. It is for pods that are tried together with one
// that was popped.
func (q *Queue) Take(ctx context.Context, uids []types.UID) []*Pod {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	var out []*Pod
	for _, uid := range uids {
		p := q.all[uid]
		if p == nil || p.place == nowhere || p.place == inFlight || p.place == landed {
			continue
		}
		// What held it back may be over and the event still to come, and the other way round.
		if p.place != active && q.cfg.PreEnqueue != nil && !q.cfg.PreEnqueue(ctx, p.Pod).IsSuccess() {
			continue
		}
		if p.Gated {
			p.Gated, p.inCompany, p.Timestamp = false, false, q.cfg.Clock.Now()
		}
		q.take(p)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Pod) int {
		switch {
		case q.cfg.Less(a, b):
			return -1
		case q.cfg.Less(b, a):
			return 1
		}
		return strings.Compare(a.Pod.Name, b.Pod.Name)
	})
	for _, p := range out {
		q.fly(p)
	}
	return out
}

// fly begins an attempt of a pod that was taken off its place.
func (q *Queue) fly(p *Pod) {
	p.place, p.start = inFlight, q.first+uint64(len(q.events))
	p.Attempts++
	p.RejectedBy = nil
	p.flight = q.flying.PushBack(p)
}

// Land ends the flight of a pod that got its node, although it may not be bound
// yet: what happens from now on is not kept for it. Done or Fail must follow.
func (q *Queue) Land(p *Pod) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	q.done(p)
	p.place = landed
}

// Done ends the flight of a pod that needs no further attempt.
func (q *Queue) Done(p *Pod) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	q.done(p)
	if q.all[p.Pod.UID] == p {
		q.strike(p)
	}
}

// Fail ends the flight of a pod that needs another attempt; latest is its newest
// version. rejectedBy names the plugins that rejected it; if it is empty the
// failure was internal and only time can help.
func (q *Queue) Fail(ctx context.Context, p *Pod, latest *corev1.Pod, rejectedBy sets.Set[string]) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	// Nothing is known of what happened since a pod has landed: it may have helped.
	hadLanded := p.flight == nil
	var missed []happened
	if !hadLanded {
		missed = q.events[min(p.start-q.first, uint64(len(q.events))):]
	}
	q.done(p)
	if q.all[p.Pod.UID] != p {
		return // deleted meanwhile
	}
	p.PodInfo = p.Renew(latest)
	p.RejectedBy, p.Flushed = rejectedBy, false
	p.Timestamp = q.cfg.Clock.Now()
	if rejectedBy.Len() == 0 {
		p.errors++
		p.backoffEnd = q.backoffEnd(p, p.errors)
		q.put(p, errored, attemptFailed)
		return
	}
	p.errors = 0
	p.failures++
	p.backoffEnd = q.backoffEnd(p, p.failures)
	if hadLanded || slices.ContainsFunc(missed, func(e happened) bool { return q.helps(ctx, p, e) }) {
		q.retry(ctx, p, attemptFailed)
		return
	}
	if p.group != nil {
		q.put(p, resting, attemptFailed)
		return
	}
	q.put(p, unschedulable, attemptFailed)
}

// Again ends the flight of a pod that is to be tried again at once, before younger ones; latest is its newest version.
func (q *Queue) Again(ctx context.Context, p *Pod, latest *corev1.Pod) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	q.done(p)
	if q.all[p.Pod.UID] != p {
		return // deleted meanwhile
	}
	p.PodInfo = p.Renew(latest)
	p.Flushed, p.failures, p.errors = false, 0, 0
	q.endRest(p)
	q.activate(ctx, p, attemptFailed)
}

// done ends p's flight and drops the events nobody needs any more.
func (q *Queue) done(p *Pod) {
	if p.flight == nil {
		return
	}
	q.flying.Remove(p.flight)
	p.place, p.flight = nowhere, nil
	oldest := q.first + uint64(len(q.events))
	if front := q.flying.Front(); front != nil {
		oldest = front.Value.(*Pod).start
	}
	if n := oldest - q.first; n > 0 {
		// What is cut off stays in memory until append moves on, or nothing is left.
		if q.events = q.events[n:]; len(q.events) == 0 {
			q.events = nil
		}
		q.first = oldest
	}
}

// retry moves p to the back-off or, if it waited long enough, to the active heap.
func (q *Queue) retry(ctx context.Context, p *Pod, event string) {
	if p.Gated || !q.cfg.Clock.Now().Before(p.backoffEnd) {
		q.take(p)
		q.activate(ctx, p, event)
		return
	}
	q.put(p, backoff, event)
}

func (q *Queue) put(p *Pod, where place, event string) {
	q.take(p)
	p.place = where
	q.cfg.Metrics.Queued(where.label(), event, p.group.enters(where.label()))
	switch where {
	case active:
		q.heap.active.add(p)
		q.cond.Signal()
	case unschedulable:
		q.waiting.add(p)
	case backoff:
		q.heap.backoff.add(p)
		q.cond.Signal()
		q.poke()
	case resting:
		q.waiting.add(p)
		fallthrough
	case errored:
		q.heap.timed.add(p)
		q.poke()
	}
}

func (q *Queue) take(p *Pod) {
	switch p.place {
	case active:
		q.heap.active.remove(p)
	case backoff:
		q.heap.backoff.remove(p)
	case resting:
		q.waiting.remove(p)
		fallthrough
	case errored:
		q.heap.timed.remove(p)
	case unschedulable:
		q.waiting.remove(p)
	}
	p.group.leaves(p.place.label())
	p.place = nowhere
}

// delay is the back-off after the n-th failure of so many pods.
func (q *Queue) delay(n, pods int) time.Duration {
	limit := q.cfg.MaxBackoff
	if pods > 1 { // a try takes longer, too
		limit = time.Duration(float64(limit) * math.Sqrt(float64(pods)))
	}
	d := q.cfg.InitialBackoff
	for range n - 1 {
		if d *= 2; d >= limit {
			break
		}
	}
	return min(d, limit)
}

// window is how much sooner the back-off of a pod must end for it to be tried before a more important one.
const window = time.Second

// scanEvery is how often pods that waited too long are looked for.
const scanEvery = 30 * time.Second

// Run ends back-offs and retries pods that waited too long, until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	for {
		wait := min(q.flush(ctx), scanEvery)
		timer := q.cfg.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-q.wake:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// flush moves what is due and returns the time until the next back-off ends.
func (q *Queue) flush(ctx context.Context) time.Duration {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	now := q.cfg.Clock.Now()
	if now.Sub(q.scanned) >= scanEvery {
		q.scanned = now
		for p := range q.waiting.all() {
			if p.place == unschedulable && now.Sub(p.Timestamp) >= q.cfg.FlushAfter && now.Sub(p.flushed) >= q.cfg.FlushAfter {
				p.Flushed, p.flushed = true, now
				q.retry(ctx, p, waitedTooLong) // also one that is held back: that may be over without an event
			}
		}
	}
	next := q.cfg.FlushAfter
	for _, h := range []*pods{&q.heap.backoff, &q.heap.timed} {
		for p := h.peek(); p != nil; p = h.peek() {
			if d := p.backoffEnd.Sub(now); d > 0 {
				next = min(next, d)
				break
			}
			q.take(p)
			q.activate(ctx, p, backoffOver)
		}
	}
	return next
}

// poke makes Run look when the next back-off ends.
func (q *Queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Activate makes waiting pods active at once, if they are still there.
func (q *Queue) Activate(ctx context.Context, pods map[string]*corev1.Pod) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	for _, pod := range pods {
		p := q.all[pod.UID]
		if p == nil {
			continue
		}
		switch p.place {
		case backoff, errored, resting, unschedulable:
			q.take(p)
			q.endRest(p)
			q.activate(ctx, p, activated)
		case inFlight:
			// The pod is tried again as if an event had helped it.
			q.events = append(q.events, happened{fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: activated}, nil, pod})
		}
	}
}

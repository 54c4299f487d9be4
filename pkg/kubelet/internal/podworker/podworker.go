// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podworker runs one goroutine per pod, so that what is done about a pod is done in order and never delays
// another pod. Touch it when the stages of a pod's life on the node change, not what happens in them.
package podworker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// Stage is where a pod is in its life on the node. It only goes forward.
type Stage int

const (
	// Syncing means: the pod is to run.
	Syncing Stage = iota
	// Terminating means: its containers are being stopped.
	Terminating
	// Terminated means: nothing of it runs. What it leaves is being taken away.
	Terminated
	// Finished means: nothing is left to do; the pod waits for its deletion from the API.
	Finished
)

// Result of a Sync.
type Result struct {
	// Terminate: the pod has ended by itself or by decision of the kubelet.
	Terminate bool
	// Requeue is when to sync again without a cause, 0 for the usual interval.
	Requeue time.Duration
}

// Life does what the stages are about. All three are repeated until they return nil, with any time in between, also by
// a later process; ctx ends when the pod's stage or grace period changes.
type Life interface {
	Sync(ctx context.Context, pod *corev1.Pod) (Result, error)
	// Terminate stops all containers within grace; after it nothing of the pod runs.
	Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error
	// Cleanup takes away what a stopped pod holds. deleted says that the pod is to leave the node for good: then nothing
	// at all may stay. It is called once for a pod that ended by itself and again when that pod is deleted. Of one that has already
	// come back it is false, so that its next containers are counted as restarts.
	Cleanup(ctx context.Context, pod *corev1.Pod, deleted bool) error
	// Forget ends it all: the pod is gone from the node and from the API. It must not block.
	Forget(pod *corev1.Pod)
}

// Workers are the goroutines of all pods.
type Workers struct {
	ctx    context.Context
	life   Life
	clock  clock.Clock
	resync time.Duration

	wg sync.WaitGroup
	mu sync.Mutex // guards pods
	// pods that are known, until they are gone from the API and the node.
	pods map[types.UID]*worker
}

// New returns Workers that end with ctx. resync is how often a pod is looked at without a cause.
func New(ctx context.Context, life Life, c clock.Clock, resync time.Duration) *Workers {
	return &Workers{ctx: ctx, life: life, clock: c, resync: resync, pods: map[types.UID]*worker{}}
}

type worker struct {
	wake chan struct{}

	mu     sync.Mutex // guards all below
	pod    *corev1.Pod
	stage  Stage
	grace  time.Duration
	gone   bool               // the API no longer has the pod
	back   bool               // though gone, it is to run again, under the same UID, and its containers count as restarted
	swept  bool               // Cleanup with deleted succeeded
	cancel context.CancelFunc // ends the step under way, nil if none is
}

// Update tells of the newest form of a pod. The first time it starts its goroutine. After Remove it says that the pod, a static one, has
// come back: it is still stopped and forgotten, and is for the caller to begin with again then.
func (w *Workers) Update(pod *corev1.Pod) {
	if w.ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	p := w.pods[pod.UID]
	if p == nil {
		p = &worker{wake: make(chan struct{}, 1)}
		w.pods[pod.UID] = p
		w.wg.Go(func() { w.run(p) })
	}
	w.mu.Unlock()

	p.mu.Lock()
	p.pod = pod
	p.back = p.gone && pod.DeletionTimestamp == nil && pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
	if pod.DeletionTimestamp != nil {
		p.terminate(Grace(pod))
	} else if ended(pod) && p.stage == Syncing {
		p.terminate(Grace(pod))
	}
	p.mu.Unlock()
	p.poke()
}

// Remove tells that the API no longer has a pod: it is stopped, and then forgotten.
func (w *Workers) Remove(pod *corev1.Pod) {
	w.mu.Lock()
	p := w.pods[pod.UID]
	w.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	p.gone = true
	p.terminate(Grace(pod))
	p.mu.Unlock()
	p.poke()
}

// Terminate ends a pod that is to run, within grace, or lets one that is ending hurry. It is not remembered: Life.Sync has to say
// so again after a restart of the process. Unknown pods are ignored.
func (w *Workers) Terminate(uid types.UID, grace time.Duration) {
	w.mu.Lock()
	p := w.pods[uid]
	w.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	p.terminate(grace)
	p.mu.Unlock()
	p.poke()
}

// Wake has a pod looked at. Unknown pods are ignored.
func (w *Workers) Wake(uid types.UID) {
	w.mu.Lock()
	p := w.pods[uid]
	w.mu.Unlock()
	if p != nil {
		p.poke()
	}
}

// Stage returns where a pod is; ok is false if it is not known.
func (w *Workers) Stage(uid types.UID) (stage Stage, ok bool) {
	w.mu.Lock()
	p := w.pods[uid]
	w.mu.Unlock()
	if p == nil {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage, true
}

// Pod returns the newest form of a pod, nil if it is not known.
func (w *Workers) Pod(uid types.UID) *corev1.Pod {
	w.mu.Lock()
	p := w.pods[uid]
	w.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pod
}

// Pods returns the newest form of all known pods.
func (w *Workers) Pods() []*corev1.Pod {
	states := w.States()
	pods := make([]*corev1.Pod, 0, len(states))
	for _, s := range states {
		pods = append(pods, s.Pod)
	}
	return pods
}

// State is a pod with where it is. Gone: the API no longer has it.
type State struct {
	Pod   *corev1.Pod
	Stage Stage
	Gone  bool
}

// States are those of all known pods.
func (w *Workers) States() []State {
	w.mu.Lock()
	workers := slices.Collect(maps.Values(w.pods))
	w.mu.Unlock()
	states := make([]State, 0, len(workers))
	for _, p := range workers {
		p.mu.Lock()
		if p.pod != nil {
			states = append(states, State{p.pod, p.stage, p.gone})
		}
		p.mu.Unlock()
	}
	return states
}

// Wait returns when all goroutines have ended, which they do after ctx.
func (w *Workers) Wait() { w.wg.Wait() }

// terminate moves a pod towards its end, and interrupts the step under way if that makes it quicker. Callers hold mu.
func (p *worker) terminate(grace time.Duration) {
	switch {
	case p.stage == Syncing:
		p.stage, p.grace = Terminating, grace
	case p.stage == Terminating && grace < p.grace:
		p.grace = grace
	default:
		return
	}
	if p.cancel != nil {
		p.cancel()
	}
}

func (p *worker) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (w *Workers) run(p *worker) {
	timer := w.clock.NewTimer(w.resync)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-p.wake:
		case <-timer.C():
		}
		wait, err := w.step(p)
		switch {
		case w.ctx.Err() != nil:
			return
		case errors.Is(err, errGone):
			return
		case err != nil:
			failures++
			wait = min(time.Second<<min(failures-1, 4), 10*time.Second)
		default:
			failures = 0
		}
		if !timer.Stop() {
			select {
			case <-timer.C():
			default:
			}
		}
		timer.Reset(wait)
	}
}

// step does the next thing about a pod and returns when to come back without a cause.
func (w *Workers) step(p *worker) (time.Duration, error) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	p.mu.Lock()
	pod, stage, grace, swept, back := p.pod, p.stage, p.grace, p.swept, p.back
	deleted := p.gone || pod.DeletionTimestamp != nil
	if p.gone && swept {
		p.mu.Unlock()
		w.mu.Lock()
		delete(w.pods, pod.UID)
		w.mu.Unlock()
		w.life.Forget(pod)
		return 0, errGone
	}
	if swept {
		p.mu.Unlock()
		return w.resync, nil
	}
	if stage == Finished && deleted {
		stage = Terminated
	}
	p.cancel = cancel
	p.mu.Unlock()

	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(pod), "uid", pod.UID)
	ctx = klog.NewContext(ctx, logger)
	var result Result
	var err error
	switch stage {
	case Syncing:
		result, err = w.life.Sync(ctx, pod)
	case Terminating:
		err = w.life.Terminate(ctx, pod, grace)
	case Terminated:
		err = w.life.Cleanup(ctx, pod, deleted && !back)
	}
	interrupted := ctx.Err() != nil

	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = nil
	switch {
	case err != nil && interrupted:
		p.poke() // the step was given up for a more urgent one
		return w.resync, nil
	case err != nil:
		logger.V(2).Info("Pod step failed", "stage", stage, "err", err)
		return 0, err
	case stage == Syncing && result.Terminate && p.stage == Syncing:
		p.stage, p.grace = Terminating, Grace(pod)
		p.poke()
	case stage == Terminating && p.stage == Terminating:
		p.stage = Terminated
		p.poke()
	case stage == Terminated:
		p.stage, p.swept = Finished, deleted
		if p.gone || !deleted && p.pod.DeletionTimestamp != nil {
			p.poke()
		}
	}
	if result.Requeue > 0 {
		return min(result.Requeue, w.resync), nil
	}
	return w.resync, nil
}

// Grace is how long the containers of a pod may take to stop: what its deletion says, else its spec, at least a second.
func Grace(pod *corev1.Pod) time.Duration {
	seconds := int64(30)
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		seconds = *g
	}
	if pod.DeletionTimestamp != nil {
		seconds = ptr.Deref(pod.DeletionGracePeriodSeconds, seconds)
	}
	return time.Duration(max(seconds, 1)) * time.Second
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

type sentinel string

func (s sentinel) Error() string { return string(s) }

// errGone ends a worker.
const errGone = sentinel("pod is gone")

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/scaler"
)

// patience is how long something that was written is waited for in the cache.
const patience = 10 * time.Second

// state is what a process knows of a function and could find out anew. It is used by the function's reconcile alone, but for what says
// otherwise.
type state struct {
	ready      string                  // the newest revision that works
	since      map[string]time.Time    // by revision, from when it is known to work
	broken     map[string]string       // why the code of a revision does not load
	generation int64                   // of the spec that was last seen
	scaling    map[string]scaler.State // by revision
	pods       map[string]*podState
	cron       map[string]*cronState
	objects    map[string]*objectsState
	told       map[string]told // by trigger, as the status has it
	failures   int             // passes in turn that failed

	poked bool // guarded by Reconciler.mu
}

// podState is what is known of a pod.
type podState struct {
	name, uid, revision string
	address             string // HOST:PORT, once there is one
	token               string
	pooled              bool
	created             time.Time
	seen                bool // it has been in the cache
	ready               bool // it takes requests
	backOff             bool // it has ended several times, and is not started again at once
	epoch               int
	trouble             string
	outstanding         int
	leaving             time.Time // since when it gets no requests, and is deleted when it has none
	deleted             bool
	restarts            int32

	preparing context.CancelFunc // guarded by Reconciler.mu; ends the preparation
	prepared  *outcome           // guarded by Reconciler.mu; what came of it
	failed    bool               // guarded by Reconciler.mu; the activator has given it up
}

// outcome is what came of preparing a pod.
type outcome struct{ err error }

// stateOf returns what is known of a function, which begins with its status.
func (r *Reconciler) stateOf(name types.NamespacedName, fn *v1alpha1.Function) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[name]
	if s == nil {
		s = &state{
			ready: fn.Status.ReadyRevision, since: map[string]time.Time{}, broken: map[string]string{}, scaling: map[string]scaler.State{},
			pods: map[string]*podState{}, cron: map[string]*cronState{}, objects: map[string]*objectsState{}, told: map[string]told{},
		}
		if fn.Status.ObservedGeneration == fn.Generation { // else the triggers may be others
			for _, t := range fn.Status.Triggers {
				s.told[t.Name] = told{version: t.Told}
			}
		}
		r.states[name] = s
	}
	s.poked = false
	return s
}

// forget ends what the process has of a function.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.activator.Remove(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[name]; s != nil {
		for _, p := range s.pods {
			if p.preparing != nil {
				p.preparing()
			}
		}
		for _, o := range s.objects {
			o.stop()
		}
	}
	delete(r.states, name)
}

// wanted is called by the activator when a request is held.
func (r *Reconciler) wanted(name types.NamespacedName) { r.poke(name) }

// failed is called by the activator when a pod does not answer.
func (r *Reconciler) failed(name types.NamespacedName, pod string) {
	r.mu.Lock()
	if s := r.states[name]; s != nil && s.pods[pod] != nil {
		s.pods[pod].failed = true
	}
	r.mu.Unlock()
	r.poke(name)
}

// observe brings what is known of pods up to what the cache has.
func (r *Reconciler) observe(s *state, pods []corev1.Pod, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		there[pod.Name] = true
		p := s.pods[pod.Name]
		if p == nil {
			p = newPodState(pod)
			s.pods[pod.Name] = p
		}
		p.see(pod, now)
	}
	for name, p := range s.pods {
		if there[name] || !p.seen && now.Sub(p.created) < patience {
			continue
		}
		if p.preparing != nil {
			p.preparing()
		}
		delete(s.pods, name)
	}
}

// see takes what the cache has of a pod.
func (p *podState) see(pod *corev1.Pod, now time.Time) {
	p.seen = true
	p.address = podAddress(pod)
	p.trouble = trouble(pod)
	p.backOff = false
	for _, c := range pod.Status.ContainerStatuses {
		p.backOff = p.backOff || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
		if c.RestartCount > p.restarts { // another process, which has no code
			p.restarts = c.RestartCount
			p.failed = true
		}
	}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if pod.DeletionTimestamp != nil {
		p.deleted = true
	}
	if (ended || p.deleted) && p.leaving.IsZero() {
		p.leaving = now
	}
}

func (r *Reconciler) takeFailures(s *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range s.pods {
		if p.failed {
			p.failed, p.ready = false, false
			if p.preparing != nil {
				p.preparing()
			}
			p.preparing, p.prepared = nil, nil
		}
	}
}

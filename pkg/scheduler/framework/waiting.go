// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// WaitingPods are the pods that Permit plugins hold between their cycle and
// their binding, and those whose PreBind runs. The zero value is empty; it is
// safe for concurrent use.
type WaitingPods struct {
	mu       sync.Mutex
	pods     map[types.UID]*waitingPod // guarded by mu
	preBinds sync.Map                  // types.UID to *podInPreBind
}

func (w *WaitingPods) add(p *waitingPod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.UID]*waitingPod{}
	}
	w.pods[p.pod.UID] = p
}

func (w *WaitingPods) get(uid types.UID) *waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid]
}

func (w *WaitingPods) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

func (w *WaitingPods) each(f func(fwk.WaitingPod)) {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.pods))
	w.mu.Unlock()
	for _, p := range all {
		f(p)
	}
}

// waitingPod waits until all plugins allow it, or one rejects it or its time is up.
type waitingPod struct {
	pod     *corev1.Pod
	verdict chan *fwk.Status // has room for the one verdict
	mu      sync.Mutex
	pending map[string]*time.Timer // guarded by mu; by plugin, nil once there is a verdict
}

var _ fwk.WaitingPod = (*waitingPod)(nil)

func newWaitingPod(pod *corev1.Pod, timeouts map[string]time.Duration) *waitingPod {
	p := &waitingPod{pod: pod, verdict: make(chan *fwk.Status, 1), pending: map[string]*time.Timer{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for plugin, d := range timeouts {
		p.pending[plugin] = time.AfterFunc(d, func() {
			p.Reject(plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", d, plugin))
		})
	}
	return p
}

// GetPod implements fwk.WaitingPod.
func (p *waitingPod) GetPod() *corev1.Pod { return p.pod }

// GetPendingPlugins implements fwk.WaitingPod.
func (p *waitingPod) GetPendingPlugins() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.pending))
}

// Allow implements fwk.WaitingPod.
func (p *waitingPod) Allow(plugin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	timer, ok := p.pending[plugin]
	if !ok {
		return
	}
	timer.Stop()
	delete(p.pending, plugin)
	if len(p.pending) == 0 {
		p.decide(nil)
	}
}

// Reject implements fwk.WaitingPod.
func (p *waitingPod) Reject(plugin, msg string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decide(fwk.NewStatus(fwk.Unschedulable, msg).WithPlugin(plugin))
}

// Preempt implements fwk.WaitingPod: the pod is retried as after an internal failure.
func (p *waitingPod) Preempt(plugin, msg string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decide(fwk.NewStatus(fwk.Error, msg).WithPlugin(plugin))
}

// decide takes the first verdict only. The caller holds p.mu.
func (p *waitingPod) decide(s *fwk.Status) bool {
	if p.pending == nil {
		return false
	}
	for _, t := range p.pending {
		t.Stop()
	}
	p.pending = nil
	p.verdict <- s
	return true
}

// podInPreBind can be stopped until its PreBind is done.
type podInPreBind struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc // guarded by mu; nil once it was called or is too late
	ended  bool                    // guarded by mu; it was cancelled
}

// CancelPod implements fwk.PodInPreBind.
func (p *podInPreBind) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return true
	}
	if p.cancel == nil {
		return false
	}
	p.cancel(errors.New(reason))
	p.ended, p.cancel = true, nil
	return true
}

// MarkPrebound implements fwk.PodInPreBind.
func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = nil
	return !p.ended
}

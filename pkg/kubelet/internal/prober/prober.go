// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// Config is what a Manager is made from.
type Config struct {
	Exec Execer
	// Dial connects from where the node is. nil: from where the process is.
	Dial     namespace.Dial
	Recorder record.EventRecorder
	Clock    clock.Clock
	// Metrics count the probes; nil counts none.
	Metrics *Metrics
	// Changed is called when a result changes, so that the pod is synced. It must not block.
	Changed func(types.UID)
}

// Manager has a goroutine for each probe of each running container. Probes end with their container.
type Manager struct {
	cfg Config
	ctx context.Context
	wg  sync.WaitGroup

	mu     sync.Mutex // guards probes
	probes map[key]*probe
}

type key struct {
	pod       types.UID
	container string // id
	kind      Kind
}

type probe struct {
	cancel context.CancelFunc
	pod    *corev1.Pod
	once   chan struct{} // an extra attempt at once (the startup probe has succeeded)
	mu     sync.Mutex    // guards state
	state  State
}

// New returns a Manager whose probes end with ctx.
func New(ctx context.Context, cfg Config) *Manager {
	return &Manager{cfg: cfg, ctx: ctx, probes: map[key]*probe{}}
}

// Wait returns when all probes have ended, after ctx.
func (m *Manager) Wait() { m.wg.Wait() }

// Running is a container that runs.
type Running struct {
	Spec      *corev1.Container
	ID        string
	StartedAt time.Time
}

// Update starts the probes that running containers of the pod lack and ends those of containers that are gone.
func (m *Manager) Update(pod *corev1.Pod, podIP string, running []Running) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := map[string]bool{}
	for _, r := range running {
		ids[r.ID] = true
		adoptedStart, adoptedReady := adopted(pod, r)
		for kind, p := range probesOf(r.Spec) {
			k := key{pod.UID, r.ID, kind}
			if m.probes[k] != nil || m.ctx.Err() != nil || pod.DeletionTimestamp != nil && kind != Readiness {
				continue
			}
			ctx, cancel := context.WithCancel(m.ctx)
			pr := &probe{cancel: cancel, pod: pod, once: make(chan struct{}, 1),
				state: Initial(kind, kind == Startup && adoptedStart || kind == Readiness && adoptedReady)}
			m.probes[k] = pr
			m.wg.Go(func() { m.run(ctx, pr, k, pod, p, r, podIP) })
		}
	}
	for k, p := range m.probes {
		if k.pod == pod.UID && !ids[k.container] {
			p.cancel()
			delete(m.probes, k)
		}
	}
}

// StopKilling ends the liveness and startup probes of a pod that is being stopped; readiness goes on telling.
func (m *Manager) StopKilling(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, p := range m.probes {
		if k.pod == uid && k.kind != Readiness {
			p.cancel()
			p.mu.Lock()
			p.state = State{Result: Success}
			p.mu.Unlock()
		}
	}
}

// End ends the probes of a container that has stopped: nothing that its address answers, or does not, is told of it any more. What they
// have found out stays.
func (m *Manager) End(uid types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, p := range m.probes {
		if k.pod == uid && k.container == id {
			p.cancel()
		}
	}
}

// Remove ends all probes of a pod.
func (m *Manager) Remove(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, p := range m.probes {
		if k.pod == uid {
			p.cancel()
			delete(m.probes, k)
			if m.cfg.Metrics != nil {
				m.cfg.Metrics.forget(uid, p.pod.Namespace, p.pod.Name)
			}
		}
	}
}

// count notes an attempt, unless its probe has ended meanwhile: nobody would drop its series then.
func (m *Manager) count(p *probe, k key, name string, out Outcome, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg.Metrics != nil && m.probes[k] == p {
		m.cfg.Metrics.count(k.kind, p.pod, name, out, took)
	}
}

// Verdict is what the probes of a container say together.
type Verdict struct{ Started, Ready, LivenessFailed, StartupFailed bool }

// Verdict of the container with that id. Without probes it has started and is ready.
func (m *Manager) Verdict(pod types.UID, id string) Verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := Verdict{Started: true, Ready: true}
	if r, ok := m.result(key{pod, id, Startup}); ok {
		v.Started, v.StartupFailed = r == Success, r == Failure
	}
	if r, ok := m.result(key{pod, id, Readiness}); ok {
		v.Ready = r == Success
	}
	if r, ok := m.result(key{pod, id, Liveness}); ok {
		v.LivenessFailed = r == Failure
	}
	return v
}

// Before is what is to be said of a container that is not probed yet: what the API says, if it ran under an earlier kubelet already.
func Before(pod *corev1.Pod, spec *corev1.Container, id string) Verdict {
	started, ready := adopted(pod, Running{Spec: spec, ID: id})
	return Verdict{Started: spec.StartupProbe == nil || started, Ready: spec.ReadinessProbe == nil || ready}
}

// Known says whether the container with that id is probed by this Manager at all.
func (m *Manager) Known(pod types.UID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, kind := range []Kind{Liveness, Readiness, Startup} {
		if m.probes[key{pod, id, kind}] != nil {
			return true
		}
	}
	return false
}

func (m *Manager) result(k key) (Result, bool) {
	p := m.probes[k]
	if p == nil {
		return Unknown, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Result, true
}

func probesOf(c *corev1.Container) map[Kind]*corev1.Probe {
	out := map[Kind]*corev1.Probe{}
	for kind, p := range map[Kind]*corev1.Probe{Liveness: c.LivenessProbe, Readiness: c.ReadinessProbe, Startup: c.StartupProbe} {
		if p != nil {
			out[kind] = p
		}
	}
	return out
}

// adopted tells what the API knows of a container that ran already when this kubelet started.
func adopted(pod *corev1.Pod, r Running) (started, ready bool) {
	st := podspec.Status(&pod.Status, r.Spec.Name)
	if st == nil || len(st.ContainerID) < len(r.ID) || st.ContainerID[len(st.ContainerID)-len(r.ID):] != r.ID {
		return false, false
	}
	return st.Started != nil && *st.Started, st.Ready
}

func (m *Manager) run(ctx context.Context, p *probe, k key, pod *corev1.Pod, spec *corev1.Probe, r Running, podIP string) {
	defer p.cancel()
	period := time.Duration(max(spec.PeriodSeconds, 1)) * time.Second
	if spec.PeriodSeconds == 0 {
		period = 10 * time.Second
	}
	p.mu.Lock()
	started := k.kind == Startup && p.state.Result == Success
	p.mu.Unlock()
	if started {
		return // it started under an earlier kubelet
	}
	// A container that has not started yet was started before the clock was set back.
	now := m.cfg.Clock.Now()
	age := max(now.Sub(r.StartedAt), 0)
	notBefore := now.Add(time.Duration(spec.InitialDelaySeconds)*time.Second - age)
	// Containers that ran before this kubelet did are spread over a period, or all would be probed in the same instant.
	first := time.Duration(0)
	if age > period {
		first = rand.N(period)
	}
	first = max(first, notBefore.Sub(now))
	if first == 0 {
		select {
		case p.once <- struct{}{}:
		default:
		}
		first = period
	}
	timer := m.cfg.Clock.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-p.once:
		}
		if early := notBefore.Sub(m.cfg.Clock.Now()); early > 0 {
			timer.Reset(early)
			continue
		}
		if !m.due(k) {
			timer.Reset(min(period, time.Second))
			continue
		}
		timer.Reset(period)
		began := m.cfg.Clock.Now()
		out := m.attempt(ctx, spec, Target{ID: r.ID, Container: r.Spec, PodIP: podIP})
		if ctx.Err() != nil {
			return
		}
		m.count(p, k, r.Spec.Name, out, m.cfg.Clock.Since(began))
		m.report(ctx, pod, r.Spec.Name, k.kind, out)
		if out.Err != nil {
			continue // nothing is known of the container, for instance while the engine restarts
		}
		p.mu.Lock()
		before := p.state.Result
		p.state = p.state.Next(k.kind, spec, out.Result)
		after, held := p.state.Result, p.state.Held
		p.mu.Unlock()
		if after != before {
			m.cfg.Changed(k.pod)
		}
		if k.kind == Startup && after == Success {
			m.hurry(k)
			return
		}
		if held {
			return
		}
	}
}

// due says whether a probe may run: startup only until it succeeded, the others only from then on.
func (m *Manager) due(k key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.result(key{k.pod, k.container, Startup})
	if k.kind == Startup {
		return r != Success
	}
	return !ok || r == Success
}

// hurry lets the other probes of a container that has just started begin at once.
func (m *Manager) hurry(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, kind := range []Kind{Liveness, Readiness} {
		if p := m.probes[key{k.pod, k.container, kind}]; p != nil {
			select {
			case p.once <- struct{}{}:
			default:
			}
		}
	}
}

// attempt probes up to three times when the attempt itself goes wrong.
func (m *Manager) attempt(ctx context.Context, spec *corev1.Probe, t Target) (out Outcome) {
	for range 3 {
		if out = Attempt(ctx, Ways{m.cfg.Exec, m.cfg.Dial}, spec, t); out.Err == nil {
			return out
		}
	}
	return out
}

func (m *Manager) report(ctx context.Context, pod *corev1.Pod, name string, kind Kind, out Outcome) {
	ref := podspec.Ref(pod, name)
	switch {
	case out.Err != nil:
		klog.FromContext(ctx).V(2).Info("Probe errored", "pod", klog.KObj(pod), "container", name, "kind", kind, "err", out.Err)
		m.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe errored and resulted in unknown state: %v", kind, out.Err))
	case out.Result == Failure:
		m.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %s", kind, out.Output))
	case out.Warning:
		m.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "ProbeWarning", fmt.Sprintf("%s probe warning: %s", kind, out.Output))
	}
}

var _ Execer = container.Runtime(nil)

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package topologymanager has CPUs, memory and devices given to pods, and all of a container's from the same NUMA nodes where a
// policy asks for that (KEP-693). Touch it when something else is to be given to pods alone, which is a Provider, or when what
// these say is to be weighed otherwise.
package topologymanager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// Provider has something that belongs to containers alone. It is asked about one pod at a time, and waits for nobody but in Save.
type Provider interface {
	// Hints are the NUMA nodes that a container may have from it, by resource: no list if it does not matter, an empty one if
	// there is not enough. PodHints are those for all containers of a pod together.
	Hints(pod *corev1.Pod, c *corev1.Container) hints
	PodHints(pod *corev1.Pod) hints
	// Allocate gives a container what it asks for, unless it has that, close to the nodes of a hint if it has any. An error may
	// have a method Reason.
	Allocate(pod *corev1.Pod, c *corev1.Container, near topology.Hint) error
	// Retain takes back what pods have that are not present, Release what one has.
	Retain(present func(types.UID) bool)
	Release(pod types.UID)
	// Save writes down what was given and taken back, if that is not written yet.
	Save() error
}

// Config is what a Manager is made from; all fields are required.
type Config struct {
	// Policy, Scope and Options are upstream's; without a policy providers give what they have, wherever it is.
	Policy, Scope string
	Options       Options
	Machine       *topology.Machine
	// Providers are asked in this order.
	Providers []Provider
	// Known says whether the node has taken a pod and not yet forgotten it, Made whether the engine has anything of it. What all
	// others have is free.
	Known, Made func(types.UID) bool
	Clock       clock.PassiveClock
	Counts      Counts
}

// Counts are told what was decided. Their methods do not block.
type Counts interface {
	// Admitted: how long it took to decide about a pod, and whether it was refused because of where things are.
	Admitted(took time.Duration, refused bool)
	// Aligned: what a scope (Container, Pod) has got is of one "numa_node", as was promised, or cannot be.
	Aligned(scope, boundary string, is bool)
}

// Manager has providers give what they have.
type Manager struct {
	cfg Config

	deciding sync.Mutex // held while it is decided about a pod; nothing is waited for meanwhile

	mu sync.Mutex // guards settled
	// settled are the pods that have what they need.
	settled map[types.UID]bool
}

// New returns a Manager. It fails if the policy is not for this machine.
func New(cfg Config) (*Manager, error) {
	if n := len(cfg.Machine.Nodes); cfg.Policy != None && n > cfg.Options.MaxNodes {
		return nil, fmt.Errorf("topology manager: unsupported on machines with more than %v NUMA Nodes", cfg.Options.MaxNodes)
	}
	return &Manager{cfg: cfg, settled: map[types.UID]bool{}}, nil
}

// Life returns a life in which each pod has what it needs before anything is made of it, and until nothing of it runs. Who cannot
// have that is ended by fail, which is told why.
func (m *Manager) Life(life podworker.Life, fail func(context.Context, *corev1.Pod, status.Failure)) podworker.Life {
	return &provided{Life: life, manager: m, fail: fail}
}

type provided struct {
	podworker.Life
	manager *Manager
	fail    func(context.Context, *corev1.Pod, status.Failure)
}

func (p *provided) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	err := p.manager.provide(pod)
	if r, is := errors.AsType[*refusal](err); is {
		p.fail(ctx, pod, status.Failure{Reason: r.reason, Message: r.message, Final: true})
		return podworker.Result{Terminate: true}, nil
	}
	if err != nil {
		return podworker.Result{}, err
	}
	return p.Life.Sync(ctx, pod)
}

func (p *provided) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	if err := p.Life.Terminate(ctx, pod, grace); err != nil {
		return err
	}
	return p.manager.release(pod.UID)
}

// refusal is why a pod cannot have what it needs, in the words of its status.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// refused puts a provider's error into upstream's words.
func refused(err error) *refusal {
	type reasoned interface {
		error
		Reason() string
	}
	if r, is := errors.AsType[reasoned](err); is {
		return &refusal{r.Reason(), r.Error()}
	}
	return &refusal{"UnexpectedAdmissionError", fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
}

// provide gives the containers of a pod what they need, before anything of it is made, and once. An error is a *refusal unless the
// disk failed; then it is to be repeated.
func (m *Manager) provide(pod *corev1.Pod) error {
	m.mu.Lock()
	settled := m.settled[pod.UID]
	m.mu.Unlock()
	if settled {
		return nil
	}
	if !m.cfg.Made(pod.UID) { // what was made has been given what it needs before, by an earlier process
		if r := m.decide(pod); r != nil {
			return errors.Join(r, m.save())
		}
		// Nothing may run with what a later kubelet would give away.
		if err := m.save(); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.settled[pod.UID] = true
	m.mu.Unlock()
	return nil
}

// decide has each provider give to each container. Who is refused has got nothing.
func (m *Manager) decide(pod *corev1.Pod) *refusal {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	for _, p := range m.cfg.Providers {
		// Nothing of the pod runs: what was decided about it before, and perhaps not written, does not count.
		p.Retain(func(uid types.UID) bool { return uid != pod.UID && m.cfg.Known(uid) || m.cfg.Made(uid) })
	}
	begun := m.cfg.Clock.Now()
	r := m.give(pod)
	m.cfg.Counts.Admitted(m.cfg.Clock.Since(begun), r != nil && m.cfg.Policy != None)
	if r != nil {
		for _, p := range m.cfg.Providers {
			p.Release(pod.UID)
		}
	}
	return r
}

func (m *Manager) give(pod *corev1.Pod) *refusal {
	var near topology.Hint
	admit := true
	if m.cfg.Policy != None && m.cfg.Scope == Pod {
		near, admit = m.ask(func(p Provider) hints { return p.PodHints(pod) })
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if m.cfg.Policy != None && m.cfg.Scope == Container {
				near, admit = m.ask(func(p Provider) hints { return p.Hints(pod, c) })
			}
			if !admit {
				m.aligned(false)
				return &refusal{"TopologyAffinityError", "Resources cannot be allocated with Topology locality"}
			}
			for _, p := range m.cfg.Providers {
				if err := p.Allocate(pod, c, near); err != nil {
					return refused(err)
				}
			}
			if m.cfg.Scope == Container {
				m.aligned(true)
			}
		}
	}
	if m.cfg.Scope == Pod {
		m.aligned(true)
	}
	return nil
}

// aligned counts what is promised to be of one NUMA node: by one policy only.
func (m *Manager) aligned(is bool) {
	if m.cfg.Policy == SingleNUMANode {
		m.cfg.Counts.Aligned(m.cfg.Scope, "numa_node", is)
	}
}

func (m *Manager) ask(of func(Provider) hints) (near topology.Hint, admit bool) {
	var all []hints
	for _, p := range m.cfg.Providers {
		all = append(all, of(p))
	}
	return merger{policy: m.cfg.Policy, nodes: m.cfg.Machine.Nodes, closest: m.cfg.Options.PreferClosest}.merge(all)
}

func (m *Manager) save() error {
	var errs []error
	for _, p := range m.cfg.Providers {
		errs = append(errs, p.Save())
	}
	return errors.Join(errs...)
}

// Tidy takes back what pods have that left the node while no kubelet ran.
func (m *Manager) Tidy() error {
	m.deciding.Lock()
	for _, p := range m.cfg.Providers {
		p.Retain(func(uid types.UID) bool { return m.cfg.Known(uid) || m.cfg.Made(uid) })
	}
	m.deciding.Unlock()
	return m.save()
}

// release takes back what a pod has of which nothing runs any more.
func (m *Manager) release(pod types.UID) error {
	m.deciding.Lock()
	for _, p := range m.cfg.Providers {
		p.Release(pod)
	}
	m.deciding.Unlock()
	m.mu.Lock()
	delete(m.settled, pod)
	m.mu.Unlock()
	return m.save()
}

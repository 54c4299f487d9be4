// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package observed groups what the container engine reports by pod. Touch it when a decision needs another view of it.
package observed

import (
	"slices"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Pod is what the engine has of one pod: newest first in both lists. It is shared and must not be changed.
type Pod struct {
	container.Pod
	Sandboxes  []*container.Sandbox
	Containers []*container.Container
}

// New returns the view of a pod with these sandboxes and containers, which it sorts in place; nil if there are none.
func New(pod container.Pod, sandboxes []*container.Sandbox, containers []*container.Container) *Pod {
	if len(sandboxes)+len(containers) == 0 {
		return nil
	}
	slices.SortStableFunc(sandboxes, func(a, b *container.Sandbox) int { return int(int64(b.Attempt) - int64(a.Attempt)) })
	slices.SortStableFunc(containers, func(a, b *container.Container) int {
		if a.Name == b.Name && a.Attempt != b.Attempt {
			return int(int64(b.Attempt) - int64(a.Attempt))
		}
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	return &Pod{Pod: pod, Sandboxes: sandboxes, Containers: containers}
}

// Sandbox is the newest running sandbox, nil if there is none.
func (p *Pod) Sandbox() *container.Sandbox {
	if p == nil {
		return nil
	}
	for _, s := range p.Sandboxes {
		if s.State == container.StateRunning {
			return s
		}
	}
	return nil
}

// History returns the containers called name, the highest attempt first.
func (p *Pod) History(name string) []*container.Container {
	if p == nil {
		return nil
	}
	var out []*container.Container
	for _, c := range p.Containers {
		if c.Name == name {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *container.Container) int { return int(int64(b.Attempt) - int64(a.Attempt)) })
	return out
}

// Latest is the newest container called name, nil if there is none.
func (p *Pod) Latest(name string) *container.Container {
	if h := p.History(name); len(h) > 0 {
		return h[0]
	}
	return nil
}

// Alive are the containers that run, or may run because their state is not known.
func (p *Pod) Alive() []*container.Container {
	if p == nil {
		return nil
	}
	var out []*container.Container
	for _, c := range p.Containers {
		if c.State == container.StateRunning || c.State == container.StateUnknown {
			out = append(out, c)
		}
	}
	return out
}

// Same says whether two views of a pod would lead to the same decisions.
func Same(a, b *Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	if len(a.Sandboxes) != len(b.Sandboxes) || len(a.Containers) != len(b.Containers) {
		return false
	}
	for i, s := range a.Sandboxes {
		if t := b.Sandboxes[i]; s.ID != t.ID || s.State != t.State || s.Pid != t.Pid {
			return false
		}
	}
	for i, c := range a.Containers {
		if d := b.Containers[i]; c.ID != d.ID || c.State != d.State || c.ExitCode != d.ExitCode || c.Resources != d.Resources {
			return false
		}
	}
	return true
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/restart"
)

// Probe is what probing says of one running container.
type Probe struct {
	// Started: there is no startup probe, or it has succeeded.
	Started bool
	// LivenessFailed and StartupFailed: the container is to be killed for it.
	LivenessFailed, StartupFailed bool
}

// Input is all that Compute decides on.
type Input struct {
	Pod      *corev1.Pod
	Observed *observed.Pod // nil: the engine has nothing of this pod
	// Probes are by container id; a running container without entry has no probes.
	Probes map[string]Probe
	// Backoff is by container name.
	Backoff map[string]restart.Backoff
	// Resize are ids of containers whose new resources, by their resizePolicy, need a restart.
	Resize map[string]bool
	Now    time.Time
}

// KillReason tells why a container is killed, because a probe may bring its own grace period.
type KillReason string

// The reasons of a Kill.
const (
	KillChanged  KillReason = "Changed"
	KillLiveness KillReason = "LivenessProbe"
	KillStartup  KillReason = "StartupProbe"
	KillResize   KillReason = "Resize"
	KillUnknown  KillReason = "Unknown"
	KillPod      KillReason = "Pod"
)

// Kill is a container to stop.
type Kill struct {
	Container *container.Container
	Reason    KillReason
	// Message of the Killing event; empty for the usual one.
	Message string
}

// Start is a container to create and start.
type Start struct {
	Name    string
	Type    container.ContainerType
	Attempt uint32
	// Exited is when the attempt before ended, zero if this is the first.
	Exited time.Time
}

// Held is a container that waits for its back-off to pass.
type Held struct {
	Name  string
	Delay time.Duration // the whole delay, as messages tell it
}

// Actions bring a pod nearer to its spec. They are carried out in the order of the fields; what follows from their
// outcome is decided by the next Compute.
type Actions struct {
	// Finished: nothing is left to run, the pod is to be terminated. No other field is set.
	Finished bool
	// Recreate: what is left of an older sandbox, containers included, goes before the new one is made.
	Recreate bool
	// CreateSandbox with SandboxAttempt; otherwise Sandbox is the one to use.
	CreateSandbox  bool
	SandboxAttempt uint32
	Sandbox        *container.Sandbox
	Kill           []Kill
	// Remove are ids of dead containers nobody asks for any more.
	Remove []string
	Start  []Start
	Held   []Held
	// Requeue is when time alone changes the answer; 0 is never.
	Requeue time.Duration
}

// Compute decides what to do about a pod that is to run. It looks at the spec and at what the engine has, at nothing
// that happened before, so that it gives the same answer after a restart of the kubelet.
func Compute(in Input) Actions {
	c := computation{Input: in, sandbox: in.Observed.Sandbox()}
	if c.sandbox == nil {
		return c.withoutSandbox()
	}
	c.Sandbox = c.sandbox
	c.prune()
	for i := range in.Pod.Spec.EphemeralContainers {
		name := in.Pod.Spec.EphemeralContainers[i].Name
		if l := c.Observed.Latest(name); l == nil && podspec.Status(&in.Pod.Status, name) == nil || neverRan(l) {
			c.start(name, container.TypeEphemeral, time.Time{})
		}
	}
	ready, failed := c.init()
	if failed {
		return Actions{Finished: true}
	}
	if ready && !c.regular() {
		return Actions{Finished: true}
	}
	return c.Actions
}

type computation struct {
	Input
	Actions
	sandbox *container.Sandbox
}

// withoutSandbox decides about a pod whose sandbox does not run: new, or lost with all its containers.
func (c *computation) withoutSandbox() Actions {
	want := false
	for i := range c.Pod.Spec.Containers {
		spec := &c.Pod.Spec.Containers[i]
		if l := c.Observed.Latest(spec.Name); l == nil && !c.hasEnded(spec) || l != nil && (neverRan(l) || c.restarts(spec, l)) {
			want = true
		}
	}
	if !want || c.initFailed() {
		return Actions{Finished: true}
	}
	a := Actions{CreateSandbox: true}
	if c.Observed != nil {
		a.Recreate = len(c.Observed.Sandboxes) > 0 || len(c.Observed.Alive()) > 0
		for _, s := range c.Observed.Sandboxes {
			a.SandboxAttempt = max(a.SandboxAttempt, s.Attempt+1)
		}
	}
	return a
}

// hasEnded says whether the API remembers that a container, of which the engine has nothing, ran and may not run again.
func (c *computation) hasEnded(spec *corev1.Container) bool {
	st := podspec.Status(&c.Pod.Status, spec.Name)
	if st == nil {
		return false
	}
	if t := st.State.Terminated; t != nil {
		return !podspec.RestartsOn(c.Pod, spec, int(t.ExitCode))
	}
	// It ran when last heard of and is gone: it counts as failed.
	return st.State.Running != nil && !podspec.RestartsOn(c.Pod, spec, 137)
}

func (c *computation) initFailed() bool {
	for i := range c.Pod.Spec.InitContainers {
		spec := &c.Pod.Spec.InitContainers[i]
		l := c.Observed.Latest(spec.Name)
		if l != nil && l.State == container.StateExited && l.ExitCode != 0 && !c.restarts(spec, l) {
			return true
		}
	}
	return false
}

// init works on the init containers and sidecars. ready: the regular containers may run. failed: they never will.
func (c *computation) init() (ready, failed bool) {
	initialized := false
	for i := range c.Pod.Spec.Containers {
		if l := c.Observed.Latest(c.Pod.Spec.Containers[i].Name); l != nil && l.SandboxID == c.sandbox.ID {
			initialized = true
		}
	}
	for i := range c.Pod.Spec.InitContainers {
		spec := &c.Pod.Spec.InitContainers[i]
		sidecar := podspec.IsSidecar(spec)
		if initialized && !sidecar {
			continue
		}
		l := c.Observed.Latest(spec.Name)
		switch {
		case l == nil || neverRan(l):
			c.start(spec.Name, container.TypeInit, time.Time{})
			if !initialized {
				return false, false
			}
		case l.SandboxID != c.sandbox.ID && l.State != container.StateRunning:
			// It ran in a sandbox that is gone; each sandbox is initialised anew.
			c.start(spec.Name, container.TypeInit, time.Time{})
			if !initialized {
				return false, false
			}
		case l.State == container.StateRunning:
			if !sidecar {
				return false, false
			}
			if !c.keep(spec, container.TypeInit, l) && !initialized {
				return false, false
			}
			if p, ok := c.Probes[l.ID]; ok && !p.Started && !initialized {
				return false, false // the next one waits for the startup probe
			}
		case l.State == container.StateUnknown:
			c.Kill = append(c.Kill, Kill{Container: l, Reason: KillUnknown,
				Message: fmt.Sprintf("Init container is in %q state, try killing it before restart", l.State)})
			c.Requeue = time.Second
			if !initialized {
				return false, false
			}
		case l.ExitCode == 0 && !sidecar:
			// done
		case c.restarts(spec, l):
			c.startAfter(spec.Name, container.TypeInit, l)
			if !initialized {
				return false, false
			}
		default:
			return false, true
		}
	}
	return true, false
}

// regular works on the regular containers and says whether any is running or will.
func (c *computation) regular() bool {
	more := false
	for i := range c.Pod.Spec.Containers {
		spec := &c.Pod.Spec.Containers[i]
		l := c.Observed.Latest(spec.Name)
		switch {
		case l == nil && c.hasEnded(spec):
			// It ended before and its container was removed behind our back.
		case l == nil || neverRan(l):
			c.start(spec.Name, container.TypeRegular, time.Time{})
			more = true
		case l.State == container.StateRunning:
			c.keep(spec, container.TypeRegular, l)
			more = true
		case l.State == container.StateUnknown:
			c.Kill = append(c.Kill, Kill{Container: l, Reason: KillUnknown,
				Message: fmt.Sprintf("Container is in %q state, try killing it before restart", l.State)})
			c.Requeue = time.Second
			more = true
		case c.restarts(spec, l):
			c.startAfter(spec.Name, container.TypeRegular, l)
			more = true
		}
	}
	return more
}

// keep decides about a running container and says whether it stays.
func (c *computation) keep(spec *corev1.Container, t container.ContainerType, l *container.Container) bool {
	p := c.Probes[l.ID]
	k := Kill{Container: l}
	restarts := podspec.RestartsOn(c.Pod, spec, 137)
	switch {
	case l.Hash != podspec.Hash(spec):
		k.Reason, k.Message = KillChanged, fmt.Sprintf("Container %s definition changed", spec.Name)
		restarts = true
	case p.LivenessFailed:
		k.Reason, k.Message = KillLiveness, fmt.Sprintf("Container %s failed liveness probe", spec.Name)
	case p.StartupFailed:
		k.Reason, k.Message = KillStartup, fmt.Sprintf("Container %s failed startup probe", spec.Name)
	case c.Resize[l.ID]:
		k.Reason, k.Message = KillResize, fmt.Sprintf("Container %s resize requires restart", spec.Name)
		c.Kill = append(c.Kill, k)
		c.start(spec.Name, t, time.Time{}) // not a crash, so it neither waits nor counts
		return false
	default:
		return true
	}
	if restarts {
		k.Message += ", will be restarted"
	}
	c.Kill = append(c.Kill, k)
	if restarts && c.Backoff[spec.Name].Remaining(c.Now, c.Now) <= 0 {
		c.start(spec.Name, t, c.Now)
	} else if restarts {
		c.Requeue = soonest(c.Requeue, time.Second)
	}
	return false
}

func (c *computation) restarts(spec *corev1.Container, l *container.Container) bool {
	code := l.ExitCode
	switch {
	case l.State == container.StateRunning:
		code = 137 // as it will be once killed with its sandbox
	case l.State == container.StateCreated && code == 0:
		code = 128 // it could not be started
	}
	return podspec.RestartsOn(c.Pod, spec, code)
}

// startAfter starts a container that ended, once its back-off has passed.
func (c *computation) startAfter(name string, t container.ContainerType, l *container.Container) {
	b := c.Backoff[name]
	if wait := b.Remaining(ended(l), c.Now); wait > 0 {
		c.Held = append(c.Held, Held{Name: name, Delay: b.Delay})
		c.Requeue = soonest(c.Requeue, wait)
		return
	}
	c.start(name, t, ended(l))
}

func (c *computation) start(name string, t container.ContainerType, exited time.Time) {
	s := Start{Name: name, Type: t, Exited: exited}
	l := c.Observed.Latest(name)
	switch {
	case neverRan(l):
		// The kubelet was killed between create and start. Nothing is known to be mounted right any more.
		c.Remove = append(c.Remove, l.ID)
		s.Attempt = l.Attempt
	case l != nil:
		s.Attempt = l.Attempt + 1
	default:
		if st := podspec.Status(&c.Pod.Status, name); st != nil && st.ContainerID != "" {
			s.Attempt = uint32(st.RestartCount) + 1
		}
	}
	c.Start = append(c.Start, s)
}

// prune keeps the newest container of each name and the one before, whose log and end may be asked for.
func (c *computation) prune() {
	seen := map[string]int{}
	for _, o := range c.Observed.Containers {
		seen[o.Name]++
	}
	for name, n := range seen {
		if n <= 2 {
			continue
		}
		for _, old := range c.Observed.History(name)[2:] {
			if old.State != container.StateRunning {
				c.Remove = append(c.Remove, old.ID)
			}
		}
	}
}

func neverRan(l *container.Container) bool {
	return l != nil && l.State == container.StateCreated && l.Message == ""
}

func ended(l *container.Container) time.Time {
	if l.FinishedAt.IsZero() {
		return l.CreatedAt
	}
	return l.FinishedAt
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

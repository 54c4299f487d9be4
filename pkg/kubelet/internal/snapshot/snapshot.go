// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot joins what is known of one pod at one moment: for each of its containers the spec, what the API and the
// engine have of it, what its probes say and how its starts went. What to do about a pod and what to tell of it is decided on
// that. Touch it when such a decision has to know more.
package snapshot

import (
	"slices"
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
	// Ready: there is no readiness probe, or it has succeeded last.
	Ready bool
	// LivenessFailed and StartupFailed: the container is to be killed for it.
	LivenessFailed, StartupFailed bool
}

// Waiting is why a container is not running although it should.
type Waiting struct{ Reason, Message string }

// Parts are what a Pod is joined from.
type Parts struct {
	// Pod with the newest known status.
	Pod      *corev1.Pod
	Observed *observed.Pod
	// PodIPs are those of the running sandbox.
	PodIPs []string
	// Probes are by container id.
	Probes map[string]Probe
	// Backoff is by container name.
	Backoff map[string]restart.Backoff
	// Waiting is by container name: the last failure to start it.
	Waiting map[string]Waiting
	// Resources are what the spec asks of the engine; nil: resizes do not matter.
	Resources func(*corev1.Pod, *corev1.Container) container.Resources
	Now       time.Time
}

// Pod is one pod at the moment Now. It is not to be changed.
type Pod struct {
	// Pod is the spec, with the newest known status.
	*corev1.Pod
	// Observed is nil if the engine has nothing of the pod.
	Observed *observed.Pod
	// Sandbox is the one that runs, nil if none does.
	Sandbox *container.Sandbox
	// Init, Regular and Ephemeral are the containers of the spec, in its order.
	Init, Regular, Ephemeral []*Container
	PodIPs                   []string
	Now                      time.Time
	// Run counts how often all containers were started again (KEP-5532): those that are started now are of it.
	Run uint32

	newest uint32 // run of which the engine has a container
}

// Container is one container of a spec.
type Container struct {
	// Spec of an ephemeral container is what it has in common with the others.
	Spec *corev1.Container
	Type container.ContainerType
	// Sidecar: an init container that runs beside the regular ones (KEP-753).
	Sidecar bool
	// Target is the container whose processes an ephemeral one shares, "" if none.
	Target string
	// Reported is its status in the API, nil if it has none.
	Reported *corev1.ContainerStatus
	// Latest is its newest attempt and Previous the one before, nil if the engine has none.
	Latest, Previous *container.Container
	// Older are the attempts before, newest first.
	Older []*container.Container
	// Probe is nil if Latest does not run, or has no probes.
	Probe *Probe
	// Backoff is the history of what the spec says, and none if Latest is of another one.
	Backoff restart.Backoff
	// Waiting is nil if the last start went well.
	Waiting *Waiting
	// Resize is nil if Latest does not run, or has the resources that the spec asks for.
	Resize *Resize
	// Stale: Latest is of a run of the pod that is over. It is to end if it has not, and to be started again.
	Stale bool
	// Move is what Latest is to be set to so that it runs on the CPUs that it is to run on; nil if it does, or does not run.
	Move *container.Resources

	policy corev1.RestartPolicy // the pod's
}

// Changed says whether Latest was made of another spec.
func (c *Container) Changed() bool { return c.Latest != nil && c.Latest.Hash != podspec.Hash(c.Spec) }

// New joins the parts.
func New(parts Parts) *Pod {
	p := &Pod{Pod: parts.Pod, Observed: parts.Observed, Sandbox: parts.Observed.Sandbox(), PodIPs: parts.PodIPs, Now: parts.Now}
	history := map[string][]*container.Container{}
	if parts.Observed != nil {
		for _, c := range parts.Observed.Containers { // newest first
			history[c.Name] = append(history[c.Name], c)
		}
	}
	for spec, t := range podspec.Containers(parts.Pod) {
		c := parts.container(spec, t, history[spec.Name])
		switch t {
		case container.TypeInit:
			p.Init = append(p.Init, c)
		case container.TypeRegular:
			p.Regular = append(p.Regular, c)
		case container.TypeEphemeral:
			c.Target = parts.Pod.Spec.EphemeralContainers[len(p.Ephemeral)].TargetContainerName
			p.Ephemeral = append(p.Ephemeral, c)
		}
	}
	p.runs()
	return p
}

func (parts *Parts) container(spec *corev1.Container, t container.ContainerType, history []*container.Container) *Container {
	c := &Container{
		Spec: spec, Type: t, Sidecar: t == container.TypeInit && podspec.IsSidecar(spec),
		Reported: podspec.Status(&parts.Pod.Status, spec.Name), Backoff: parts.Backoff[spec.Name], policy: parts.Pod.Spec.RestartPolicy,
	}
	if w, ok := parts.Waiting[spec.Name]; ok {
		c.Waiting = &w
	}
	if len(history) == 0 {
		return c
	}
	slices.SortStableFunc(history, func(a, b *container.Container) int { return int(int64(b.Attempt) - int64(a.Attempt)) })
	c.Latest = history[0]
	if len(history) > 1 {
		c.Previous, c.Older = history[1], history[2:]
	}
	if c.Backoff != (restart.Backoff{}) && c.Changed() {
		c.Backoff = restart.Backoff{}
	}
	if c.Running() {
		if v, ok := parts.Probes[c.Latest.ID]; ok {
			c.Probe = &v
		}
		if parts.Resources != nil {
			want := parts.Resources(parts.Pod, spec)
			c.Move = move(c.Latest, want)
			if t != container.TypeEphemeral {
				c.Resize = resize(c.Latest, spec, want)
			}
		}
	}
	return c
}

// Containers are the init, regular and ephemeral containers in this order.
func (p *Pod) Containers() []*Container { return slices.Concat(p.Init, p.Regular, p.Ephemeral) }

// Find returns the container called name, nil if the spec has none.
func (p *Pod) Find(name string) *Container {
	for _, list := range [][]*Container{p.Init, p.Regular, p.Ephemeral} {
		for _, c := range list {
			if c.Spec.Name == name {
				return c
			}
		}
	}
	return nil
}

// Running says whether the newest attempt is known to run.
func (c *Container) Running() bool {
	return c.Latest != nil && c.Latest.State == container.StateRunning
}

// NeverRan says that the newest attempt was made and not started, because whoever made it was killed.
func (c *Container) NeverRan() bool {
	return c.Latest != nil && c.Latest.State == container.StateCreated && c.Latest.Message == ""
}

// RestartsOn says whether the container is to be started again when it has ended with exitCode, by its own
// restartPolicyRules, its own restartPolicy (KEP-5307), or the pod's. Sidecars always restart.
func (c *Container) RestartsOn(exitCode int) bool {
	if c.rule(exitCode) != nil {
		return true // to start this one again, or all
	}
	policy := string(c.policy)
	if c.Spec.RestartPolicy != nil {
		policy = string(*c.Spec.RestartPolicy)
	} else if c.Type == container.TypeInit && c.policy == corev1.RestartPolicyAlways {
		// A plain init container runs until it succeeds once.
		policy = string(corev1.RestartPolicyOnFailure)
	}
	switch policy {
	case string(corev1.RestartPolicyNever):
		return false
	case string(corev1.RestartPolicyOnFailure):
		return exitCode != 0
	default:
		return true
	}
}

// Restarts says whether the container is to be started again after its newest attempt, whose end it foresees if that runs
// still: it is killed with its sandbox.
func (c *Container) Restarts() bool {
	code := c.Latest.ExitCode
	switch {
	case c.Running():
		code = killed
	case c.Latest.State == container.StateCreated && code == 0:
		code = notStarted
	}
	return c.RestartsOn(code)
}

// WasMade says whether the API remembers that the container was made once, though the engine may have nothing of it.
func (c *Container) WasMade() bool {
	r := c.Reported
	return r != nil && (r.ContainerID != "" || r.State.Running != nil || r.State.Terminated != nil)
}

// HasEnded says whether the API remembers that the container, of which the engine has nothing, ran and may not run again.
func (c *Container) HasEnded() bool {
	if c.Reported == nil {
		return false
	}
	if t := c.Reported.State.Terminated; t != nil {
		return !c.RestartsOn(int(t.ExitCode))
	}
	// It ran when last heard of and is gone: it counts as failed.
	return c.Reported.State.Running != nil && !c.RestartsOn(killed)
}

// Exit codes of containers that did not end by themselves: killed by SIGKILL, and never started.
const killed, notStarted = 137, 128

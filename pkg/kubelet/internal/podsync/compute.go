// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

// KillReason tells why a container is killed, because a probe may bring its own grace period.
type KillReason string

// The reasons of a Kill.
const (
	KillChanged  KillReason = "Changed"
	KillLiveness KillReason = "LivenessProbe"
	KillStartup  KillReason = "StartupProbe"
	KillResize   KillReason = "Resize"
	KillAll      KillReason = "RestartAllContainers"
	KillUnknown  KillReason = "Unknown"
	KillPod      KillReason = "Pod"
)

// Kill is a container to stop.
type Kill struct {
	Container *container.Container
	// Of is what it is an attempt of; nil if the spec does not have it.
	Of     *snapshot.Container
	Reason KillReason
	// Message of the Killing event; empty for the usual one.
	Message string
}

// Start is a container to create and start.
type Start struct {
	Of      *snapshot.Container
	Attempt uint32
	// Exited is when the attempt before ended, zero if this is the first.
	Exited time.Time
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
	// Remove are dead containers nobody asks for any more.
	Remove []*container.Container
	// Held wait for their back-off to pass.
	Held  []*snapshot.Container
	Start []Start
	// Requeue is when time alone changes the answer; 0 is never.
	Requeue time.Duration
}

// Compute decides what to do about a pod that is to run. It looks at the spec and at what the engine has, at nothing
// that happened before, so that it gives the same answer after a restart of the kubelet.
func Compute(pod *snapshot.Pod) Actions {
	c := computation{pod: pod}
	if pod.Sandbox == nil {
		return c.withoutSandbox()
	}
	c.Sandbox = pod.Sandbox
	if c.endStale() {
		return c.Actions
	}
	for _, e := range pod.Containers() {
		c.prune(e)
	}
	for _, e := range pod.Ephemeral {
		if e.Latest == nil && !e.WasMade() || e.NeverRan() {
			c.start(e, time.Time{})
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
	Actions
	pod *snapshot.Pod
}

// endStale kills what runs of a run of the pod that is over (KEP-5532), the last first, and says whether there is such. Nothing
// starts beside it.
func (c *computation) endStale() bool {
	for _, list := range [][]*snapshot.Container{c.pod.Regular, c.pod.Init} {
		for _, of := range slices.Backward(list) {
			if l := of.Latest; of.Stale && (l.State == container.StateRunning || l.State == container.StateUnknown) {
				c.Kill = append(c.Kill, Kill{Container: l, Of: of, Reason: KillAll, Message: "killing"})
			}
		}
	}
	return len(c.Kill) > 0
}

// withoutSandbox decides about a pod whose sandbox does not run: new, or lost with all its containers.
func (c *computation) withoutSandbox() Actions {
	want := false
	for _, r := range c.pod.Regular {
		if r.Latest == nil && !r.HasEnded() || r.Latest != nil && (r.NeverRan() || r.Stale || r.Restarts()) {
			want = true
		}
	}
	if !want || c.initFailed() || c.runsOnce() {
		return Actions{Finished: true}
	}
	a := Actions{CreateSandbox: true}
	if o := c.pod.Observed; o != nil {
		a.Recreate = len(o.Sandboxes) > 0 || len(o.Alive()) > 0
		for _, s := range o.Sandboxes {
			a.SandboxAttempt = max(a.SandboxAttempt, s.Attempt+1)
		}
	}
	return a
}

// runsOnce says whether the pod had its only run, however far that got: nothing of a pod that never restarts is done twice, unless one of
// its containers has asked for all to start again, and not all have.
func (c *computation) runsOnce() bool {
	ran, stale := false, false
	for _, of := range c.pod.Containers() {
		ran, stale = ran || of.Latest != nil && !of.NeverRan(), stale || of.Stale
	}
	return c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever && ran && !stale
}

func (c *computation) initFailed() bool {
	for _, i := range c.pod.Init {
		if l := i.Latest; l != nil && l.State == container.StateExited && l.ExitCode != 0 && !i.Stale && !i.Restarts() {
			return true
		}
	}
	return false
}

// init works on the init containers and sidecars. ready: the regular containers may run. failed: they never will.
func (c *computation) init() (ready, failed bool) {
	at := c.reached()
	for n, i := range c.pod.Init {
		if n < at && !i.Sidecar {
			continue
		}
		done, failed := c.initOne(i)
		if failed {
			return false, true
		}
		if !done && n >= at {
			return false, false
		}
	}
	return true, false
}

// reached is how many of the init containers are over, because one after them, or a regular one, was made in this sandbox. It does not matter
// what has become of them since: those that have ended may have been removed, and sidecars that crash hold up nobody any more (KEP-753).
func (c *computation) reached() int {
	made := func(of *snapshot.Container) bool {
		return of.Latest != nil && !of.Stale && of.Latest.SandboxID == c.Sandbox.ID
	}
	if slices.ContainsFunc(c.pod.Regular, made) {
		return len(c.pod.Init)
	}
	for n, i := range slices.Backward(c.pod.Init) {
		if made(i) {
			return n
		}
	}
	return 0
}

// initOne works on one of them. done: the next one may start. failed: it never will.
func (c *computation) initOne(i *snapshot.Container) (done, failed bool) {
	l := i.Latest
	switch {
	case l == nil || i.NeverRan() || i.Stale:
		c.start(i, time.Time{})
		return false, false
	case l.SandboxID != c.Sandbox.ID && l.State != container.StateRunning:
		// It ran in a sandbox that is gone; each sandbox is initialised anew.
		c.start(i, time.Time{})
		return false, false
	case l.State == container.StateRunning:
		// The next one waits for a sidecar's startup probe.
		return i.Sidecar && c.keep(i) && (i.Probe == nil || i.Probe.Started), false
	case l.State == container.StateUnknown:
		c.unknown(i, "Init container")
		return false, false
	case l.ExitCode == 0 && !i.Sidecar:
		return true, false
	case i.Restarts():
		c.startAfter(i)
		return false, false
	default:
		return false, true
	}
}

// regular works on the regular containers and says whether any is running or will.
func (c *computation) regular() bool {
	more := false
	for _, r := range c.pod.Regular {
		switch {
		case r.Latest == nil && r.HasEnded():
			// It ended before and its container was removed behind our back.
			continue
		case r.Latest == nil || r.NeverRan() || r.Stale:
			c.start(r, time.Time{}) // not a crash if it is stale, so it neither waits nor counts
		case r.Running():
			c.keep(r)
		case r.Latest.State == container.StateUnknown:
			c.unknown(r, "Container")
		case r.Restarts():
			c.startAfter(r)
		default:
			continue
		}
		more = true
	}
	return more
}

// unknown kills a container of which nobody knows whether it runs, and has it looked at again.
func (c *computation) unknown(of *snapshot.Container, what string) {
	c.Kill = append(c.Kill, Kill{Container: of.Latest, Of: of, Reason: KillUnknown,
		Message: fmt.Sprintf("%s is in %q state, try killing it before restart", what, of.Latest.State)})
	c.Requeue = time.Second
}

// keep decides about a running container and says whether it stays.
func (c *computation) keep(of *snapshot.Container) bool {
	k := Kill{Container: of.Latest, Of: of}
	name, restarts := of.Spec.Name, of.RestartsOn(137)
	what, again := "Container", ", will be restarted"
	if of.Type == container.TypeInit {
		what, again = "Init container", "" // as upstream says it of sidecars
	}
	switch p := of.Probe; {
	case of.Changed():
		k.Reason, k.Message = KillChanged, fmt.Sprintf("%s %s definition changed%s", what, name, again)
		c.Kill = append(c.Kill, k)
		c.start(of, time.Time{}) // not a crash, so it neither waits nor counts, and starts however the other one ends
		return false
	case p != nil && p.LivenessFailed:
		k.Reason, k.Message = KillLiveness, fmt.Sprintf("%s %s failed liveness probe", what, name)
	case p != nil && p.StartupFailed:
		k.Reason, k.Message = KillStartup, fmt.Sprintf("%s %s failed startup probe", what, name)
	case of.Resize != nil && of.Resize.Restart:
		k.Reason, k.Message = KillResize, fmt.Sprintf("Container %s resize requires restart", name)
		c.Kill = append(c.Kill, k)
		c.start(of, time.Time{}) // not a crash, so it neither waits nor counts
		return false
	default:
		return true
	}
	if restarts {
		k.Message += again
	}
	c.Kill = append(c.Kill, k)
	now := c.pod.Now
	if restarts && of.Backoff.Remaining(now, now) <= 0 && !snapshot.MayRestartAll(of.Spec) {
		c.start(of, now) // unless its end may be one that starts all again
	} else if restarts {
		c.Requeue = soonest(c.Requeue, time.Second)
	}
	return false
}

// startAfter starts a container that ended, once its back-off has passed.
func (c *computation) startAfter(of *snapshot.Container) {
	exited := ended(of.Latest)
	if wait := of.Backoff.Remaining(exited, c.pod.Now); wait > 0 {
		c.Held = append(c.Held, of)
		c.Requeue = soonest(c.Requeue, wait)
		return
	}
	c.start(of, exited)
}

func (c *computation) start(of *snapshot.Container, exited time.Time) {
	s := Start{Of: of, Exited: exited}
	switch l := of.Latest; {
	case of.NeverRan():
		// The kubelet was killed between create and start. Nothing is known to be mounted right any more.
		c.Remove = append(c.Remove, l)
		s.Attempt = l.Attempt
	case l != nil:
		s.Attempt = l.Attempt + 1
	case of.Reported != nil && of.Reported.ContainerID != "":
		s.Attempt = uint32(of.Reported.RestartCount) + 1
	}
	c.Start = append(c.Start, s)
}

// prune keeps the newest attempt and the one before, whose log and end may be asked for.
func (c *computation) prune(of *snapshot.Container) {
	for _, old := range of.Older {
		if old.State != container.StateRunning {
			c.Remove = append(c.Remove, old)
		}
	}
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package status computes the status of a pod from what the engine and the probes say, and keeps the API server told.
// Touch it when a status field, a condition or the way of reporting changes.
package status

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// Waiting reasons of containers that have not been started, as upstream spells them.
const (
	ReasonContainerCreating = "ContainerCreating"
	ReasonPodInitializing   = "PodInitializing"
	ReasonStatusUnknown     = "ContainerStatusUnknown"
	// ReasonRestartingAll is also that of the ends of containers that had to end for it.
	ReasonRestartingAll = "RestartingAllContainers"
)

// Failure is why the kubelet itself ended a pod (deadline, admission, eviction).
type Failure struct {
	Reason, Message string
	// Grace is how long its containers may take to stop, 0 for as long as its spec says.
	Grace time.Duration `json:",omitempty"`
	// Final: the pod has failed whatever its containers say. Otherwise one of the API has succeeded if all of them ended with 0 when they were to
	// stop, as upstream's.
	Final bool `json:",omitempty"`
	// Disrupted: it was for the node's sake, which the condition DisruptionTarget tells (KEP-3329).
	Disrupted bool `json:",omitempty"`
	// Transient: it is not kept, so that the next kubelet runs the pod again.
	Transient bool `json:"-"`
	// Clear: the pod's containers go at once and not with the pod, because what they take is needed.
	Clear bool `json:",omitempty"`
}

// Input is all that a pod's status is made from.
type Input struct {
	// Look has the newest known API status, of which history is kept that the engine no longer has.
	Look *snapshot.Pod
	// RuntimeName prefixes container ids: docker://….
	RuntimeName string
	HostIPs     []string
	// TerminationMessages are by container id.
	TerminationMessages map[string]string
	// OutOfMemory says of a container, by the engine's id, whether the kernel has killed a process of it for want of memory: the engine does not
	// always know. nil: it is not known.
	OutOfMemory func(id string) bool
	// Devices are those of containers, by name; without entry those that were told last are.
	Devices map[string][]corev1.ResourceStatus
	// Pending is why the pod does not get what it has been resized to, nil if it does.
	Pending *allocation.Pending
	// Begun is the generation whose resources the pod is to get, 0 if that is not known.
	Begun int64
	// Tight is why the pod keeps for now what it had before it was resized, "" if it does not.
	Tight string
	// RecursiveReadOnly: what runs the containers in the pod's sandbox takes mounts that are so.
	RecursiveReadOnly bool
	// Finished: nothing will be started any more.
	Finished bool
	// Stopped: nothing of the pod runs and nothing will. Only then is a terminal phase reported.
	Stopped bool
	Failure *Failure
}

// Generate returns the status to report. The conditions that the kubelet does not own are those of in.Look.
func Generate(in Input) corev1.PodStatus {
	pod := in.Look.Pod
	old := pod.Status
	st := *old.DeepCopy()
	if in.Look.Observed == nil && podspec.IsTerminal(pod) {
		return st // nothing is left that could change it
	}
	st.ObservedGeneration = pod.Generation
	st.QOSClass = qos.Of(pod)
	if st.StartTime == nil {
		st.StartTime = new(metav1.NewTime(in.Look.Now).Rfc3339Copy())
	}
	addresses(&st, in)
	st.AllocatedResources, st.Resources = resource.PodRequests(pod, resource.PodResourcesOptions{}), in.resources()
	st.InitContainerStatuses = in.containers(in.Look.Init)
	st.ContainerStatuses = in.containers(in.Look.Regular)
	st.EphemeralContainerStatuses = in.containers(in.Look.Ephemeral)
	if in.Stopped {
		settle(in.Look, &st)
	}

	terminal := podspec.IsTerminal(pod)
	switch p := phase(in, &st); {
	case terminal: // never goes back, nor from one to the other
		st.Phase = old.Phase
	case p == corev1.PodSucceeded || p == corev1.PodFailed:
		if in.Stopped {
			st.Phase = p
		} else if st.Phase == "" {
			st.Phase = corev1.PodPending
		}
	default:
		st.Phase = p
	}
	if st.Phase != old.Phase {
		st.Reason, st.Message = "", "" // they were about that one
	}
	if in.Failure != nil && !terminal && in.Stopped && st.Phase == corev1.PodFailed {
		st.Reason, st.Message = in.Failure.Reason, in.Failure.Message
	}
	conditions(in, &st)
	if in.Failure != nil && in.Failure.Disrupted && !terminal && in.Stopped {
		disrupt(in, &st)
	}
	// In upstream's order: only init containers have theirs.
	byName := func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(st.ContainerStatuses, byName)
	slices.SortFunc(st.EphemeralContainerStatuses, byName)
	return st
}

// resizing says whether a container has not got yet what its spec asks for.
func (in Input) resizing() bool {
	return slices.ContainsFunc(in.Look.Containers(), func(c *snapshot.Container) bool { return c.Resize != nil })
}

// resources are those that the pod as a whole has now (KEP-5419).
func (in Input) resources() *corev1.ResourceRequirements {
	pod := in.Look.Pod
	if old := pod.Status.Resources; old != nil && (in.Tight != "" || in.resizing()) {
		return old.DeepCopy()
	}
	r := corev1.ResourceRequirements{
		Requests: resource.PodRequests(pod, resource.PodResourcesOptions{}), Limits: resource.PodLimits(pod, resource.PodResourcesOptions{}),
	}
	maps.DeleteFunc(r.Limits, func(name corev1.ResourceName, _ apiresource.Quantity) bool { return !podspec.Limited(pod, name) })
	return &r
}

// settle gives each container of a stopped pod an end, so that a terminal pod never shows one that might run. Only those stay waiting
// whose turn never came, because initialisation did not get that far; the first one's always has.
func settle(look *snapshot.Pod, st *corev1.PodStatus) {
	begun := func(cs corev1.ContainerStatus) bool {
		return cs.State.Waiting == nil || cs.LastTerminationState.Terminated != nil
	}
	reached, done := 0, true
	for i, cs := range st.InitContainerStatuses {
		if begun(cs) {
			reached = i
		}
		done = done && (cs.Ready || look.Init[i].Sidecar)
	}
	initialized := done || slices.ContainsFunc(st.ContainerStatuses, begun)
	for i := range st.InitContainerStatuses {
		cs := &st.InitContainerStatuses[i]
		if cs.State.Terminated == nil && (i <= reached || cs.ContainerID != "") {
			cs.State = corev1.ContainerState{Terminated: unknown(cs.ContainerID)}
		}
		cs.Started = new(false)
	}
	for i := range st.ContainerStatuses {
		cs := &st.ContainerStatuses[i]
		if cs.State.Terminated == nil && initialized {
			cs.State = corev1.ContainerState{Terminated: unknown(cs.ContainerID)}
		}
		cs.Started, cs.Ready = new(false), false
	}
}

func addresses(st *corev1.PodStatus, in Input) {
	if len(in.HostIPs) > 0 {
		st.HostIP = in.HostIPs[0]
		st.HostIPs = nil
		for _, ip := range in.HostIPs {
			st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: ip})
		}
	}
	if ips := in.Look.PodIPs; len(ips) > 0 {
		st.PodIP = ips[0]
		st.PodIPs = nil
		for _, ip := range ips {
			st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// again says whether a container that has ended so is started again.
func again(c *snapshot.Container, end *corev1.ContainerStateTerminated) bool {
	return c.Stale || end.Reason == ReasonRestartingAll || c.RestartsOn(int(end.ExitCode))
}

// phase is how the pod fares, which the kubelet's decision to end it may outweigh.
func phase(in Input, st *corev1.PodStatus) corev1.PodPhase {
	p := summary(in, st)
	if in.Failure != nil && (in.Failure.Final || p != corev1.PodSucceeded || staticpod.Is(in.Look.Pod)) {
		return corev1.PodFailed
	}
	return p
}

// summary is that of the containers' states.
func summary(in Input, st *corev1.PodStatus) corev1.PodPhase {
	pending, failed := false, false // initialization
	var waiting, running, stopped, succeeded, restarting int
	for i, c := range in.Look.Init {
		cs := &st.InitContainerStatuses[i]
		end := lastEnd(cs)
		switch {
		case c.Sidecar && cs.State.Running != nil:
			running++
			pending = pending || !*cs.Started && !in.begun()
		case c.Sidecar:
			pending = pending || end == nil // one that has ended starts again, whatever the others do
		case end == nil:
			pending = true
		default:
			failed = failed || end.ExitCode != 0 && !again(c, end)
		}
	}
	for i, c := range in.Look.Regular {
		cs := &st.ContainerStatuses[i]
		end := lastEnd(cs)
		switch {
		case cs.State.Running != nil:
			running++
			continue
		case end == nil:
			waiting++
			continue
		}
		stopped++
		if end.ExitCode == 0 {
			succeeded++
		}
		if again(c, end) {
			restarting++
		}
	}
	switch {
	case failed:
		return corev1.PodFailed
	case (in.Finished || in.Stopped) && running == 0:
		if waiting == 0 && stopped > 0 && stopped == succeeded {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	case pending || waiting > 0:
		return corev1.PodPending
	case running > 0 || restarting > 0:
		return corev1.PodRunning
	case stopped > 0 && stopped == succeeded:
		return corev1.PodSucceeded
	case stopped > 0:
		return corev1.PodFailed
	default:
		return corev1.PodPending
	}
}

// lastEnd is the end of a container that has ended, or waits to be started again; nil if there is none.
func lastEnd(cs *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if cs.State.Waiting != nil {
		return cs.LastTerminationState.Terminated
	}
	return cs.State.Terminated
}

// begun says whether the pod is initialised in the sandbox that it has, because one of its regular containers was made in that.
func (in Input) begun() bool {
	sb := in.Look.Sandbox
	return sb != nil && slices.ContainsFunc(in.Look.Regular, func(c *snapshot.Container) bool { return c.Latest != nil && c.Latest.SandboxID == sb.ID })
}

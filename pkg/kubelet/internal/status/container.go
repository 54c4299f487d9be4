// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

func (in Input) containers(list []*snapshot.Container) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, of := range list {
		out = append(out, in.container(of))
	}
	return out
}

// container is the status of one container: its newest attempt, the one before as last state.
func (in Input) container(of *snapshot.Container) corev1.ContainerStatus {
	c := of.Spec
	cs := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	if old := of.Reported; old != nil {
		cs.RestartCount, cs.ImageID, cs.ContainerID = old.RestartCount, old.ImageID, old.ContainerID
		cs.LastTerminationState = old.LastTerminationState
		cs.AllocatedResources, cs.Resources = old.AllocatedResources, old.Resources
		cs.User, cs.AllocatedResourcesStatus, cs.StopSignal = old.User, old.AllocatedResourcesStatus, old.StopSignal
	}
	if d, ok := in.Devices[c.Name]; ok {
		cs.AllocatedResourcesStatus = d
	}
	cs.VolumeMounts = in.mounts(of)

	if l := of.Latest; l == nil {
		if cs.State = in.gone(of); cs.State.Waiting != nil {
			cs.AllocatedResources, cs.Resources, cs.User, cs.StopSignal = nil, nil, nil, nil // there is nothing that has them
		}
	} else {
		cs.AllocatedResources, cs.Resources = c.Resources.Requests.DeepCopy(), c.Resources.DeepCopy()
		if c.Lifecycle != nil {
			cs.StopSignal = c.Lifecycle.StopSignal
		}
		cs.RestartCount = int32(l.Attempt)
		cs.ContainerID, cs.ImageID = in.id(l), l.ImageID
		if l.ImageRef != "" {
			cs.Image = l.ImageRef
		}
		if u := l.User; u != nil {
			cs.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: u.UID, GID: u.GID, SupplementalGroups: u.Groups}}
		}
		cs.State = in.state(of, l)
		if of.Previous != nil {
			if prev := in.state(of, of.Previous); prev.Terminated != nil {
				cs.LastTerminationState = prev
			}
		}
		if of.Resize != nil && of.Reported != nil && of.Reported.Resources != nil {
			cs.Resources = of.Reported.Resources // those in force
		}
	}
	in.wait(of, &cs)
	probe(of, &cs)
	return cs
}

// state is the API's form of what the engine says of one container.
func (in Input) state(of *snapshot.Container, l *container.Container) corev1.ContainerState {
	switch {
	case l.State == container.StateRunning:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: stamp(l.StartedAt)}}
	case l.State == container.StateExited, l.State == container.StateCreated && l.Message != "":
		end := &corev1.ContainerStateTerminated{
			ExitCode:    int32(l.ExitCode),
			Reason:      "Completed",
			StartedAt:   stamp(l.StartedAt),
			FinishedAt:  stamp(l.FinishedAt),
			ContainerID: in.id(l),
			Message:     in.TerminationMessages[l.ID],
		}
		switch {
		case l.StartedAt.IsZero() && l.Message != "":
			end.Reason, end.Message = "StartError", l.Message
			if end.ExitCode == 0 {
				end.ExitCode = 128
			}
			end.StartedAt = stamp(l.CreatedAt)
			if l.FinishedAt.IsZero() {
				end.FinishedAt = stamp(l.CreatedAt)
			}
		case l.ExitCode != 0 && in.outOfMemory(of, l):
			end.Reason = reasonOOMKilled
		case l.ExitCode != 0:
			end.Reason = "Error"
		}
		over := in.Finished || in.Stopped // nothing is started again, so the newest one has ended with its pod
		if of.EndedForAll(l) && (!over || l != of.Latest) {
			end.Reason, end.Message, end.ExitCode = ReasonRestartingAll, restartingAllMessage, 137
		}
		return corev1.ContainerState{Terminated: end}
	case l.State == container.StateUnknown:
		return corev1.ContainerState{Terminated: unknown(in.id(l))}
	default:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: ReasonContainerCreating}}
	}
}

// outOfMemory says whether a container has ended because the kernel has killed a process of it. What was said once stays.
func (in Input) outOfMemory(of *snapshot.Container, l *container.Container) bool {
	if l.OOMKilled || l.ExitCode == killed && in.OutOfMemory != nil && in.OutOfMemory(l.ID) {
		return true
	}
	if of.Reported == nil {
		return false
	}
	said := func(s corev1.ContainerState) bool {
		return s.Terminated != nil && s.Terminated.Reason == reasonOOMKilled && s.Terminated.ContainerID == in.id(l)
	}
	return said(of.Reported.State) || said(of.Reported.LastTerminationState)
}

const (
	reasonOOMKilled = "OOMKilled"
	// killed is the exit code of what was ended by SIGKILL.
	killed = 137
)

// gone is the state of a container of which the engine has nothing. Whatever its type, it waits for the pod's
// initialization if the pod has init containers.
func (in Input) gone(of *snapshot.Container) corev1.ContainerState {
	old := of.Reported
	if old != nil && old.State.Terminated != nil {
		return old.State
	}
	if old != nil && old.State.Running != nil {
		return corev1.ContainerState{Terminated: unknown(old.ContainerID)}
	}
	if in.Finished || in.Stopped {
		if old != nil && old.ContainerID != "" {
			return corev1.ContainerState{Terminated: unknown(old.ContainerID)}
		}
		if old != nil && old.State.Waiting != nil {
			return old.State
		}
	}
	if of.Type == container.TypeInit && !of.Sidecar && slices.ContainsFunc(in.Look.Regular, func(r *snapshot.Container) bool { return r.Latest != nil }) {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed",
			Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"}}
	}
	reason := ReasonContainerCreating
	if len(in.Look.Init) > 0 {
		reason = ReasonPodInitializing
	}
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func unknown(id string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		Reason:      ReasonStatusUnknown,
		Message:     "The container could not be located when the pod was terminated",
		ExitCode:    137,
		ContainerID: id,
	}
}

// restartingAllMessage is upstream's, which removes the containers.
const restartingAllMessage = "The container is removed because RestartAllContainers in place"

// wait shows a container that could not be (re)started as waiting, with its end as last state.
func (in Input) wait(of *snapshot.Container, cs *corev1.ContainerStatus) {
	w := of.Waiting
	if of.Stale && cs.State.Terminated != nil && (w == nil || w.Reason == "CrashLoopBackOff") {
		w = &snapshot.Waiting{Reason: ReasonRestartingAll, Message: restartingAllMessage}
	}
	if w == nil || in.Finished || in.Stopped || cs.State.Running != nil {
		return
	}
	if end := cs.State.Terminated; end != nil {
		if of.Type == container.TypeEphemeral || !again(of, end) {
			return
		}
		cs.LastTerminationState = cs.State
	}
	cs.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: w.Reason, Message: w.Message}}
}

// probe sets started and ready.
func probe(of *snapshot.Container, cs *corev1.ContainerStatus) {
	if of.Type == container.TypeEphemeral {
		return
	}
	if of.Type == container.TypeInit && !of.Sidecar {
		cs.Started = new(cs.State.Running != nil)
		cs.Ready = cs.State.Terminated != nil && cs.State.Terminated.ExitCode == 0
		return
	}
	running := cs.State.Running != nil
	started, ready := running, running
	if p := of.Probe; running && p != nil {
		started, ready = p.Started, p.Started && p.Ready
	}
	cs.Started, cs.Ready = &started, ready
}

// stamp is a time as precise as the API's JSON, so that what is computed equals what is read back.
func stamp(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t).Rfc3339Copy()
}

func (in Input) id(l *container.Container) string { return in.RuntimeName + "://" + l.ID }

// mounts are those of a container. Without a sandbox they are what they were, for nobody knows what it was run with.
func (in Input) mounts(of *snapshot.Container) []corev1.VolumeMountStatus {
	if old := of.Reported; in.Look.Sandbox == nil && old != nil && len(old.VolumeMounts) > 0 {
		return old.VolumeMounts
	}
	var out []corev1.VolumeMountStatus
	for i := range of.Spec.VolumeMounts {
		m := &of.Spec.VolumeMounts[i]
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			s.RecursiveReadOnly = new(corev1.RecursiveReadOnlyDisabled)
			if recursive, err := podspec.RecursiveReadOnly(m, in.RecursiveReadOnly); err == nil && recursive {
				s.RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
			}
		}
		out = append(out, s)
	}
	return out
}

// Ended tells of the containers that have terminated since an earlier status of their pod.
func Ended(before, now *corev1.PodStatus, tell func(t container.ContainerType, end *corev1.ContainerStateTerminated)) {
	for t, list := range map[container.ContainerType][]corev1.ContainerStatus{
		container.TypeInit: now.InitContainerStatuses, container.TypeRegular: now.ContainerStatuses, container.TypeEphemeral: now.EphemeralContainerStatuses,
	} {
		for i := range list {
			old := podspec.Status(before, list[i].Name)
			if end := list[i].State.Terminated; end != nil && (old == nil || old.State.Terminated == nil) {
				tell(t, end)
			}
		}
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

// Reasons of the conditions, as upstream spells them.
const (
	reasonNoSandbox      = "PodSandboxNotReady"
	reasonNotInitialized = "ContainersNotInitialized"
	reasonNotReady       = "ContainersNotReady"
	reasonGates          = "ReadinessGatesNotReady"
	reasonCompleted      = "PodCompleted"
	reasonFailed         = "PodFailed"
	reasonRestartAll     = "RestartAllContainersStarted"
)

// conditions replaces those that the kubelet owns and keeps the others. The time of the last transition stays where
// the status does.
func conditions(in Input, st *corev1.PodStatus) {
	ready := containersReady(in.Look, st)
	own := []corev1.PodCondition{
		sandbox(in),
		initialized(in, st),
		gated(in.Look.Pod, st, ready),
		ready,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	if in.Look.MayRestartAll() {
		own = append(own, restartingAll(in.Look, st))
	}
	if st.Phase != corev1.PodSucceeded && st.Phase != corev1.PodFailed {
		own = append(own, resize(in)...)
	}
	out := make([]corev1.PodCondition, 0, len(own)+len(st.Conditions))
	for _, c := range own {
		c.ObservedGeneration = cmp.Or(c.ObservedGeneration, in.Look.Generation)
		c.LastTransitionTime = metav1.NewTime(in.Look.Now).Rfc3339Copy()
		if i := condition(st.Conditions, c.Type); i >= 0 && !turns(st.Conditions[i], c) {
			c.LastTransitionTime, c.LastProbeTime = st.Conditions[i].LastTransitionTime, st.Conditions[i].LastProbeTime
		}
		out = append(out, c)
	}
	for _, o := range st.Conditions {
		over := o.Type == corev1.PodResizeInProgress || o.Type == corev1.PodResizePending
		if !over && !slices.ContainsFunc(own, func(c corev1.PodCondition) bool { return c.Type == o.Type }) {
			out = append(out, o)
		}
	}
	st.Conditions = out
}

// turns says whether a condition is another one than before. Those of resizes are always true, and turn with their reason, as upstream's.
func turns(before, c corev1.PodCondition) bool {
	resizes := c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress
	return before.Status != c.Status || resizes && before.Reason != c.Reason
}

// resize tells of a resize that waits, and of one that goes on, which may be of an earlier generation (KEP-1287).
func resize(in Input) (out []corev1.PodCondition) {
	if p := in.Pending; p != nil {
		out = append(out, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: p.Reason, Message: p.Message})
	}
	switch {
	case in.Tight != "":
		out = append(out, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, Message: in.Tight, ObservedGeneration: in.Begun})
	case in.resizing():
		out = append(out, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, ObservedGeneration: in.Begun})
	}
	return out
}

// disrupt tells that the kubelet has ended the pod for the node's sake.
func disrupt(in Input, st *corev1.PodStatus) {
	c := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: in.Failure.Message,
		ObservedGeneration: in.Look.Generation, LastTransitionTime: metav1.NewTime(in.Look.Now).Rfc3339Copy(),
	}
	i := condition(st.Conditions, c.Type)
	if i < 0 {
		st.Conditions = append(st.Conditions, c)
		return
	}
	if st.Conditions[i].Status == c.Status {
		c.LastTransitionTime = st.Conditions[i].LastTransitionTime
	}
	st.Conditions[i] = c
}

// disrupted says whether a condition is what disrupt has told. The others of that type are somebody else's.
func disrupted(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonTerminationByKubelet
}

// sandbox tells of PodReadyToStartContainers (KEP-3085).
func sandbox(in Input) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Reason: reasonNoSandbox}
	switch s := in.Look.Sandbox; {
	case s != nil && (s.Network == container.NamespaceNode || len(in.Look.PodIPs) > 0):
		c.Status, c.Reason = corev1.ConditionTrue, ""
	case s != nil:
		c.Message = "pod sandbox has no IP address"
	case in.Look.Observed == nil || len(in.Look.Observed.Sandboxes) == 0:
		c.Message = "no pod sandbox exists"
	default:
		c.Message = "pod sandbox is not ready"
	}
	return c
}

func initialized(in Input, st *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	for _, cs := range st.ContainerStatuses {
		if cs.State.Running != nil || cs.State.Terminated != nil && cs.ContainerID != "" {
			return completed(c, st)
		}
	}
	var incomplete []string
	for i, of := range in.Look.Init {
		cs := &st.InitContainerStatuses[i]
		done := cs.Ready
		if of.Sidecar {
			done = cs.Started != nil && *cs.Started
		} else if cs.LastTerminationState.Terminated != nil && cs.LastTerminationState.Terminated.ExitCode == 0 && cs.State.Waiting != nil {
			done = true
		}
		if !done {
			incomplete = append(incomplete, of.Spec.Name)
		}
	}
	if st.Phase == corev1.PodSucceeded {
		return completed(c, st)
	}
	if len(incomplete) > 0 && initializedBefore(st) {
		return c // it stays so when all containers start again, in this sandbox (KEP-5532) or another
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, reasonNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func initializedBefore(st *corev1.PodStatus) bool {
	i := condition(st.Conditions, corev1.PodInitialized)
	return i >= 0 && st.Conditions[i].Status == corev1.ConditionTrue
}

// restartingAll tells of AllContainersRestarting (KEP-5532).
func restartingAll(look *snapshot.Pod, st *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse}
	switch {
	case st.Phase == corev1.PodSucceeded:
		c.Reason = reasonCompleted
	case st.Phase == corev1.PodFailed:
		c.Reason = reasonFailed
	case look.RestartingAll():
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonRestartAll, "container exited with restart policy rule"
	}
	return c
}

func completed(c corev1.PodCondition, st *corev1.PodStatus) corev1.PodCondition {
	if st.Phase == corev1.PodSucceeded {
		c.Reason = reasonCompleted
	}
	return c
}

func containersReady(look *snapshot.Pod, st *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	var unready []string
	for i, of := range look.Init {
		if of.Sidecar && !st.InitContainerStatuses[i].Ready {
			unready = append(unready, of.Spec.Name)
		}
	}
	for _, cs := range st.ContainerStatuses {
		if !cs.Ready {
			unready = append(unready, cs.Name)
		}
	}
	switch {
	case st.Phase == corev1.PodSucceeded:
		c.Status, c.Reason = corev1.ConditionFalse, reasonCompleted
	case st.Phase == corev1.PodFailed:
		c.Status, c.Reason = corev1.ConditionFalse, reasonFailed
	case len(unready) > 0:
		c.Status, c.Reason = corev1.ConditionFalse, reasonNotReady
		c.Message = fmt.Sprintf("containers with unready status: %s", unready)
	}
	return c
}

// gated is Ready: the containers are, and every readiness gate (KEP-580) is true.
func gated(pod *corev1.Pod, st *corev1.PodStatus, ready corev1.PodCondition) corev1.PodCondition {
	c := ready
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var messages []string
	for _, g := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(st.Conditions, func(o corev1.PodCondition) bool { return o.Type == g.ConditionType })
		if i < 0 {
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(g.ConditionType)))
		} else if v := st.Conditions[i].Status; v != corev1.ConditionTrue {
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(g.ConditionType), v))
		}
	}
	if len(messages) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonGates, strings.Join(messages, ", ")
	}
	return c
}

// Rejected is the status of a pod that this node does not take.
func Rejected(pod *corev1.Pod, f Failure, now metav1.Time) corev1.PodStatus {
	st := *pod.Status.DeepCopy()
	st.ObservedGeneration = pod.Generation
	st.QOSClass = qos.Of(pod)
	st.Phase, st.Reason, st.Message = corev1.PodFailed, f.Reason, "Pod was rejected: "+f.Message
	if st.StartTime == nil {
		st.StartTime = &now
	}
	return st
}

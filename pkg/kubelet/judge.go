// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/source"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// judge decides which pods the node takes, and whether those that are resized get what they ask for.
type judge struct {
	*informers
	pods    *pods
	devices *devicemanager.Manager
	// features are what admission asks of the node at this moment.
	features func() admission.Features
	// preempt ends a pod for a critical one that is short of a resource.
	preempt func(ctx context.Context, pod *corev1.Pod, resource string)
	// rejected is told why a pod was.
	rejected func(reason string)
	status   *status.Manager
	resizes  *allocation.Waiting
	// rules are what the node does not do for pods that run.
	rules    allocation.Rules
	metrics  resizeCounts
	recorder record.EventRecorder
	clock    clock.PassiveClock
}

// resizeCounts are told of resizes. The words are upstream's.
type resizeCounts interface {
	// ResizeRequested: a container asks for another amount of a resource.
	ResizeRequested(allocation.Request)
	// ResizeInfeasible: a resize will never be.
	ResizeInfeasible(cause string)
	// DeferredResize: one that has waited for room waits no more, for that reason.
	DeferredResize(pod *corev1.Pod, resolution string, waited time.Duration)
	// DeferredAccepted: one that has waited has found room, when it was looked at for that cause.
	DeferredAccepted(trigger string)
}

// What can come of a resize that has waited for room.
const accepted, reverted, terminated = "accepted", "reverted", "terminated"

var _ source.Node = (*judge)(nil)

// Admit asks whether the node takes a pod beside those it has.
func (j *judge) Admit(ctx context.Context, pod *corev1.Pod, node *corev1.Node, final bool) bool {
	node = j.devices.Without(node)
	active, f := j.pods.Active(), j.features()
	r := admission.Admit(pod, node, active, f)
	if r == nil || !final {
		return r == nil
	}
	if r = j.makeRoom(ctx, pod, node, active, f, r); r == nil {
		return true
	}
	j.rejected(r.Reason)
	klog.FromContext(ctx).Info("Pod rejected", "pod", klog.KObj(pod), "reason", r.Reason, "message", r.Message)
	j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, r.Reason, r.Message)
	j.status.Set(pod, status.Rejected(pod, status.Failure{Reason: r.Reason, Message: r.Message}, metav1.NewTime(j.clock.Now()).Rfc3339Copy()))
	return false
}

// makeRoom has pods end for a critical one that is refused for want of room. It returns why the pod is refused all the same.
func (j *judge) makeRoom(ctx context.Context, pod *corev1.Pod, node *corev1.Node, active []*corev1.Pod, f admission.Features, r *admission.Refusal) *admission.Refusal {
	victims, ok := admission.Preempt(pod, node, active, f)
	if !ok {
		return r
	}
	for _, v := range victims {
		j.preempt(ctx, v, strings.TrimPrefix(r.Reason, "OutOf"))
	}
	return nil
}

// Allot decides whether a pod that has been resized gets what it asks for, by all that a new pod is judged by, as upstream's.
func (j *judge) Allot(ctx context.Context, pod, have *corev1.Pod, trigger string) (*corev1.Pod, bool) {
	if podspec.IsTerminal(pod) {
		_, since := j.resizes.Set(pod.UID, pod.Generation, nil, j.clock.Now())
		j.waited(pod, terminated, since)
		if !allocation.Same(pod, have) {
			pod = allocation.Keep(pod, have)
		}
		return pod, false
	}
	j.count(pod, have)
	run, pending := j.rules.Decide(pod, have, func(asked *corev1.Pod) *admission.Refusal {
		node := j.devices.Without(j.Current())
		if node == nil {
			return &admission.Refusal{Reason: "InvalidNodeInfo", Message: "Kubelet cannot get node info."}
		}
		others, f := slices.DeleteFunc(j.pods.Active(), func(p *corev1.Pod) bool { return p.UID == pod.UID }), j.features()
		r := admission.Admit(asked, node, others, f)
		if r != nil {
			r = j.makeRoom(ctx, asked, node, others, f, r)
		}
		return r
	})
	news, since := j.resizes.Set(pod.UID, pod.Generation, pending, j.clock.Now())
	switch {
	case news:
		klog.FromContext(ctx).V(2).Info("Pod resize waits", "pod", klog.KObj(pod), "reason", pending.Reason, "message", pending.Message)
		what := pending.Cause
		if pending.Reason == corev1.PodReasonInfeasible {
			what = pending.Reason
			j.metrics.ResizeInfeasible(pending.Cause)
		}
		j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "Resize"+pending.Reason,
			allocation.Message("Pod resize "+what, pod, pod.Generation, pending.Message))
	case pending == nil && !allocation.Same(run, have):
		if !since.IsZero() {
			j.metrics.DeferredAccepted(trigger)
		}
		j.waited(pod, accepted, since)
		j.resizes.Begin(pod.UID, pod.Generation)
		j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeNormal, "ResizeStarted", allocation.Message("Pod resize started", run, pod.Generation, ""))
	case pending == nil:
		j.waited(pod, reverted, since)
	}
	return run, pending != nil
}

// count tells of what a pod asks for otherwise than before. What was asked of an earlier process is not told.
func (j *judge) count(pod, have *corev1.Pod) {
	before := j.resizes.Ask(pod)
	if _, taken := j.pods.workers.Stage(pod.UID); before == nil && taken {
		before = have
	}
	if before == nil || before == pod {
		return
	}
	for _, r := range allocation.Requests(pod, before) {
		j.metrics.ResizeRequested(r)
	}
}

// waited tells what has come of a resize that was deferred, if it was.
func (j *judge) waited(pod *corev1.Pod, resolution string, since time.Time) {
	if !since.IsZero() {
		j.metrics.DeferredResize(pod, resolution, j.clock.Since(since))
	}
}

// Gone implements source.Node.
func (j *judge) Gone(uid types.UID) { j.status.Forget(uid) }

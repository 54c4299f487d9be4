// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"slices"
	"strings"

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
	// exclusive is what does not change while a pod runs.
	exclusive allocation.Exclusive
	recorder  record.EventRecorder
	clock     clock.PassiveClock
}

var _ source.Node = (*judge)(nil)

// Admit asks whether the node takes a pod beside those it has.
func (j *judge) Admit(ctx context.Context, pod *corev1.Pod, node *corev1.Node, final bool) bool {
	node = j.devices.Without(node)
	active, f := j.pods.Active(), j.features()
	r := admission.Admit(pod, node, active, f)
	if r == nil || !final {
		return r == nil
	}
	if victims, ok := admission.Preempt(pod, node, active, f); ok {
		for _, v := range victims {
			j.preempt(ctx, v, strings.TrimPrefix(r.Reason, "OutOf"))
		}
		return true
	}
	j.rejected(r.Reason)
	klog.FromContext(ctx).Info("Pod rejected", "pod", klog.KObj(pod), "reason", r.Reason, "message", r.Message)
	j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, r.Reason, r.Message)
	j.status.Set(pod, status.Rejected(pod, status.Failure{Reason: r.Reason, Message: r.Message}, metav1.NewTime(j.clock.Now()).Rfc3339Copy()))
	return false
}

// Allot decides whether a pod that has been resized gets what it asks for.
func (j *judge) Allot(pod, have *corev1.Pod) (*corev1.Pod, bool) {
	others := slices.DeleteFunc(j.pods.Active(), func(p *corev1.Pod) bool { return p.UID == pod.UID })
	run, pending := j.exclusive.Decide(pod, have, j.Current(), others)
	news := j.resizes.Set(pod.UID, pod.Generation, pending)
	switch {
	case news:
		klog.Background().V(2).Info("Pod resize waits", "pod", klog.KObj(pod), "reason", pending.Reason, "message", pending.Message)
		j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "Resize"+pending.Reason,
			allocation.Message("Pod resize "+pending.Reason, pod, pod.Generation, pending.Message))
	case pending == nil && have != nil && !allocation.Same(run, have):
		j.resizes.Begin(pod.UID, pod.Generation)
		j.recorder.Event(podspec.PodRef(pod), corev1.EventTypeNormal, "ResizeStarted", allocation.Message("Pod resize started", run, pod.Generation, ""))
	}
	return run, pending != nil
}

// Gone implements source.Node.
func (j *judge) Gone(uid types.UID) { j.status.Forget(uid) }

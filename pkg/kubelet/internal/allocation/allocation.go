// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package allocation decides which resources a pod has whose spec has been resized: those that it asks for now, or, while the node
// has no room, those that it had. Touch it when other resources than cpu and memory can be resized. See KEP-1287.
package allocation

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
)

// Pending is why a resize waits, in the words of the condition PodResizePending. Its reason is corev1.PodReasonDeferred if the node
// may have room later, corev1.PodReasonInfeasible if it never will.
type Pending struct {
	Reason, Message string
	// Cause is admission's reason to refuse a deferred one, by which upstream's event calls it, or how metrics call an infeasible one.
	Cause string
}

// waiting is a resize that waits, of a generation of its pod, and since when for that reason.
type waiting struct {
	Pending
	generation int64
	since      time.Time
}

// Decide returns the pod that is to run instead of have, which runs: desired, or desired with the resources of have, and why.
// admit says why the node would not take a pod with what it asks for now, nil if it would. Neither pod is changed.
func Decide(desired, have *corev1.Pod, admit func(*corev1.Pod) *admission.Refusal) (*corev1.Pod, *Pending) {
	if have == nil || Same(desired, have) {
		return desired, nil
	}
	// What the status says is of the resources that it had, but for those that it has by a claim.
	asked := desired.DeepCopy()
	asked.Status = corev1.PodStatus{ExtendedResourceClaimStatus: asked.Status.ExtendedResourceClaimStatus}
	if r := admit(asked); r != nil {
		return Keep(desired, have), &Pending{Reason: corev1.PodReasonDeferred, Message: r.Message, Cause: r.Reason}
	}
	return desired, nil
}

// Same says whether two specs of a pod ask for the same resources.
func Same(a, b *corev1.Pod) bool {
	if !apiequality.Semantic.DeepEqual(a.Spec.Resources, b.Spec.Resources) {
		return false
	}
	of := map[string]*corev1.ResourceRequirements{}
	for _, list := range [][]corev1.Container{b.Spec.InitContainers, b.Spec.Containers} {
		for i := range list {
			of[list[i].Name] = &list[i].Resources
		}
	}
	for _, list := range [][]corev1.Container{a.Spec.InitContainers, a.Spec.Containers} {
		for i := range list {
			if r, is := of[list[i].Name]; is && !apiequality.Semantic.DeepEqual(*r, list[i].Resources) {
				return false
			}
		}
	}
	return true
}

// Keep returns a copy of desired with the resources of have.
func Keep(desired, have *corev1.Pod) *corev1.Pod {
	pod := desired.DeepCopy()
	pod.Spec.Resources = have.Spec.Resources.DeepCopy()
	of := map[string]corev1.ResourceRequirements{}
	for _, list := range [][]corev1.Container{have.Spec.InitContainers, have.Spec.Containers} {
		for _, c := range list {
			of[c.Name] = *c.Resources.DeepCopy()
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if r, is := of[list[i].Name]; is {
				list[i].Resources = r
			}
		}
	}
	return pod
}

// Compare is negative if a's resize gets room before b's: that of the higher priority, or else of the better class of quality of service
// (KEP-1287, "Priority of Resize Requests"). Of others the one that has waited longer comes first.
func Compare(a, b *corev1.Pod) int {
	rank := []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
		cmp.Compare(slices.Index(rank, qos.Of(a)), slices.Index(rank, qos.Of(b))),
	)
}

// Waiting are the resizes of a node that wait for room, or are being brought about. The zero value has none. It is safe for concurrent
// use.
type Waiting struct {
	mu   sync.Mutex
	pods map[types.UID]waiting
	// begun are the generations whose resources pods get at the moment.
	begun map[types.UID]int64
	// asked are the pods as they last asked for resources.
	asked map[types.UID]*corev1.Pod
}

// Ask notes what a pod asks for, and returns it as it asked before, nil if it did not.
func (w *Waiting) Ask(pod *corev1.Pod) (before *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.asked[pod.UID]
	if w.asked == nil {
		w.asked = map[types.UID]*corev1.Pod{}
	}
	w.asked[pod.UID] = pod
	return before
}

// Set notes why the resize of a pod of that generation waits, nil if it does not, and says whether that is to be told: what of a
// resource is in use changes often, and is no news. since is when a resize was deferred that waits no more, zero if none was.
func (w *Waiting) Set(uid types.UID, generation int64, p *Pending, now time.Time) (news bool, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, waited := w.pods[uid]
	if p == nil {
		delete(w.pods, uid)
		if was.Reason == corev1.PodReasonDeferred {
			since = was.since
		}
		return false, since
	}
	if w.pods == nil {
		w.pods = map[types.UID]waiting{}
	}
	next := waiting{*p, generation, now}
	if was.Reason == p.Reason {
		next.since = was.since
	}
	w.pods[uid] = next
	return !waited || was.Reason != p.Reason || was.generation != generation, time.Time{}
}

// Begin notes that a pod is to get the resources of its generation.
func (w *Waiting) Begin(uid types.UID, generation int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun == nil {
		w.begun = map[types.UID]int64{}
	}
	w.begun[uid] = generation
}

// Begun is the generation whose resources a pod does not have yet that it was resized to; 0 if it has them, or an earlier process began.
func (w *Waiting) Begun(uid types.UID) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[uid]
}

// Complete says which generation's resources a pod has got that has all of the one that it runs as; false if it was not resized, or
// does not run as that yet.
func (w *Waiting) Complete(uid types.UID, runs int64) (generation int64, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if generation, is = w.begun[uid]; !is || runs < generation {
		return 0, false
	}
	delete(w.begun, uid)
	return generation, true
}

// Forget drops what is known of a pod.
func (w *Waiting) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
	delete(w.begun, uid)
	delete(w.asked, uid)
}

// Get returns why a pod's resize waits, nil if it does not.
func (w *Waiting) Get(uid types.UID) *Pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, is := w.pods[uid]; is {
		return &p.Pending
	}
	return nil
}

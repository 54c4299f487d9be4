// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package allocation decides which resources a pod has whose spec has been resized: those that it asks for now, or, while the node
// has no room, those that it had. Touch it when other resources than cpu and memory can be resized. See KEP-1287.
package allocation

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
)

// Pending is why a resize waits, in the words of the condition PodResizePending. Its reason is corev1.PodReasonDeferred if the node
// may have room later, corev1.PodReasonInfeasible if it never will.
type Pending struct{ Reason, Message string }

// waiting is a resize that waits, of a generation of its pod.
type waiting struct {
	Pending
	generation int64
}

// Decide returns the pod that is to run instead of have, which runs: desired, or desired with the resources of have, and why.
// Others are the other pods of the node. Neither pod is changed.
func Decide(desired, have *corev1.Pod, node *corev1.Node, others []*corev1.Pod) (*corev1.Pod, *Pending) {
	if have == nil || Same(desired, have) {
		return desired, nil
	}
	if node == nil {
		return keep(desired, have), &Pending{corev1.PodReasonDeferred, "the node is not known yet"}
	}
	// What the status says is of the resources that it had, but for those that it has by a claim.
	asked := desired.DeepCopy()
	asked.Status = corev1.PodStatus{ExtendedResourceClaimStatus: asked.Status.ExtendedResourceClaimStatus}
	if p := infeasible(asked, node); p != nil {
		return keep(desired, have), p
	}
	if r := admission.Room(asked, node, others); r != nil {
		return keep(desired, have), &Pending{corev1.PodReasonDeferred, r.Message}
	}
	return desired, nil
}

// infeasible says which resource the node has not enough of even if it had no other pod.
func infeasible(pod *corev1.Pod, node *corev1.Node) *Pending {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	const text = "Node didn't have enough capacity: %s, requested: %d, capacity: %d"
	if want, have := requests.Cpu().MilliValue(), node.Status.Allocatable.Cpu().MilliValue(); want > have {
		return &Pending{corev1.PodReasonInfeasible, fmt.Sprintf(text, corev1.ResourceCPU, want, have)}
	}
	if want, have := requests.Memory().Value(), node.Status.Allocatable.Memory().Value(); want > have {
		return &Pending{corev1.PodReasonInfeasible, fmt.Sprintf(text, corev1.ResourceMemory, want, have)}
	}
	return nil
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

// keep returns a copy of desired with the resources of have.
func keep(desired, have *corev1.Pod) *corev1.Pod {
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
}

// Set notes why the resize of a pod of that generation waits, nil if it does not, and says whether that is to be told: what of a
// resource is in use changes often, and is no news.
func (w *Waiting) Set(uid types.UID, generation int64, p *Pending) (news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, waited := w.pods[uid]
	if p == nil {
		delete(w.pods, uid)
		return false
	}
	if w.pods == nil {
		w.pods = map[types.UID]waiting{}
	}
	w.pods[uid] = waiting{*p, generation}
	return !waited || was.Reason != p.Reason || was.generation != generation
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

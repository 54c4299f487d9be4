// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// Preempt returns the pods of active that have to end so that a critical pod finds room; ok is false if the pod is not critical, is
// refused for another reason, or finds none all the same. It ends as few and as small pods as it can without searching all
// sets, and guaranteed ones only if all others are not enough.
func Preempt(pod *corev1.Pod, node *corev1.Node, active []*corev1.Pod, f Features) (victims []*corev1.Pod, ok bool) {
	if !podspec.IsCritical(pod) || fitting(pod, f) != nil || others(pod, node, active) != nil {
		return nil, false
	}
	missing := need{}
	for _, s := range shortages(pod, node, active) {
		missing[s.name] = s.amount()
	}
	var bestEffort, burstable, guaranteed []*corev1.Pod
	for _, p := range active {
		switch class := qos.Of(p); {
		case !preemptable(pod, p):
		case class == corev1.PodQOSBestEffort:
			bestEffort = append(bestEffort, p)
		case class == corev1.PodQOSBurstable:
			burstable = append(burstable, p)
		default:
			guaranteed = append(guaranteed, p)
		}
	}
	if len(missing.without(slices.Concat(bestEffort, burstable, guaranteed))) > 0 {
		return nil, false
	}
	last := missing.without(slices.Concat(bestEffort, burstable)).choose(guaranteed)
	middle := missing.without(slices.Concat(bestEffort, last)).choose(burstable)
	least := missing.without(slices.Concat(middle, last)).choose(bestEffort)
	return slices.Concat(least, middle, last), true
}

// preemptable says whether a critical pod may take the room of p.
func preemptable(critical, p *corev1.Pod) bool {
	return !podspec.IsCritical(p) || corev1helpers.PodPriority(critical) > corev1helpers.PodPriority(p)
}

// need is how much is missing of each resource.
type need map[corev1.ResourceName]int64

// without is what is missing when pods have ended.
func (n need) without(pods []*corev1.Pod) need {
	left := need{}
	for name, amount := range n {
		for _, p := range pods {
			amount -= requestsOf(p)[name]
		}
		if amount > 0 {
			left[name] = amount
		}
	}
	return left
}

// distance is how far the end of a pod leaves from having all, each resource counting the same.
func (n need) distance(p *corev1.Pod) (sum float64) {
	requests := requestsOf(p)
	for name, amount := range n {
		if left := float64(amount - requests[name]); left > 0 {
			sum += (left / float64(amount)) * (left / float64(amount))
		}
	}
	return sum
}

// choose returns pods whose end satisfies the need, each time that which brings it nearest and of several the smallest. They must
// be enough all together.
func (n need) choose(pods []*corev1.Pod) (chosen []*corev1.Pod) {
	pods = slices.Clone(pods)
	for len(n) > 0 && len(pods) > 0 {
		best := 0
		for i, p := range pods {
			if d, least := n.distance(p), n.distance(pods[best]); d < least || d == least && smaller(p, pods[best]) {
				best = i
			}
		}
		chosen = append(chosen, pods[best])
		n = n.without(pods[best : best+1])
		pods = slices.Delete(pods, best, best+1)
	}
	return chosen
}

func smaller(a, b *corev1.Pod) bool {
	x, y := requestsOf(a), requestsOf(b)
	if m := corev1.ResourceMemory; x[m] != y[m] {
		return x[m] < y[m]
	}
	return x[corev1.ResourceCPU] < y[corev1.ResourceCPU]
}

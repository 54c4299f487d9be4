// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
)

// Exclusive are the policies of the managers that give CPUs or memory to containers alone, by resource: what these have does not
// change while the pod runs.
type Exclusive map[corev1.ResourceName]string

// Rules are what a node does not do for pods that run.
type Rules struct {
	Exclusive Exclusive
	// Swaps says whether a container of a pod may use swap, how much of which is set when it is made. nil: none may.
	Swaps func(*corev1.Pod, *corev1.Container) bool
}

// Decide is the function of that name for a node with such rules. The messages and causes are upstream's.
func (r Rules) Decide(desired, have *corev1.Pod, admit func(*corev1.Pod) *admission.Refusal) (*corev1.Pod, *Pending) {
	if have != nil && !Same(desired, have) {
		if p := r.infeasible(desired, have); p != nil {
			return Keep(desired, have), p
		}
	}
	return Decide(desired, have, admit)
}

func (r Rules) infeasible(desired, have *corev1.Pod) *Pending {
	if r.swapped(desired, have) {
		return &Pending{corev1.PodReasonInfeasible, "In-place resize of containers with swap is not supported.", "swap_limitation"}
	}
	if qos.Of(desired) != corev1.PodQOSGuaranteed {
		return nil
	}
	for _, m := range []struct {
		name           corev1.ResourceName
		manager, cause string
	}{
		{corev1.ResourceCPU, "CPU", "guaranteed_pod_cpu_manager_static_policy"},
		{corev1.ResourceMemory, "Memory", "guaranteed_pod_memory_manager_static_policy"},
	} {
		if policy, is := r.Exclusive[m.name]; is && resized(desired, have, m.name) {
			return &Pending{corev1.PodReasonInfeasible, fmt.Sprintf("Resize is infeasible for Guaranteed Pods alongside %s Manager policy %q", m.manager, policy), m.cause}
		}
	}
	return nil
}

// swapped says whether a container that uses swap, or would, requests another amount of memory and is not restarted for that.
func (r Rules) swapped(desired, have *corev1.Pod) bool {
	if r.Swaps == nil {
		return false
	}
	for _, c := range pairs(desired, have) {
		restarts := false
		for _, p := range c.have.ResizePolicy {
			restarts = restarts || p.ResourceName == corev1.ResourceMemory && p.RestartPolicy == corev1.RestartContainer
		}
		if !restarts && c.desired.Resources.Requests.Memory().Cmp(*c.have.Resources.Requests.Memory()) != 0 && (r.Swaps(desired, c.desired) || r.Swaps(have, c.have)) {
			return true
		}
	}
	return false
}

// resized says whether a container asks for another amount of a resource than it has.
func resized(desired, have *corev1.Pod, name corev1.ResourceName) bool {
	for _, c := range pairs(desired, have) {
		want, has := c.desired.Resources, c.have.Resources
		if want.Requests.Name(name, "").Cmp(*has.Requests.Name(name, "")) != 0 || want.Limits.Name(name, "").Cmp(*has.Limits.Name(name, "")) != 0 {
			return true
		}
	}
	return false
}

// pair is a container in two forms of its pod.
type pair struct{ desired, have *corev1.Container }

// pairs are the containers of desired that have has, too.
func pairs(desired, have *corev1.Pod) (out []pair) {
	for _, lists := range [][2][]corev1.Container{{desired.Spec.InitContainers, have.Spec.InitContainers}, {desired.Spec.Containers, have.Spec.Containers}} {
		of := map[string]*corev1.Container{}
		for i := range lists[1] {
			of[lists[1][i].Name] = &lists[1][i]
		}
		for i := range lists[0] {
			if c := of[lists[0][i].Name]; c != nil {
				out = append(out, pair{&lists[0][i], c})
			}
		}
	}
	return out
}

// Request is that a container asks for another amount of a resource than before, in upstream's words.
type Request struct{ Resource, Requirement, Operation string }

// Requests are what the containers of pod ask for otherwise than before.
func Requests(pod, before *corev1.Pod) (out []Request) {
	for _, c := range pairs(pod, before) {
		for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
			for _, part := range []struct {
				name    string
				now, at corev1.ResourceList
			}{{"requests", c.desired.Resources.Requests, c.have.Resources.Requests}, {"limits", c.desired.Resources.Limits, c.have.Resources.Limits}} {
				if op := operation(part.now, part.at, name); op != "" {
					out = append(out, Request{string(name), part.name, op})
				}
			}
		}
	}
	return out
}

// operation is what has been done to an amount, "" if nothing has.
func operation(now, before corev1.ResourceList, name corev1.ResourceName) string {
	want, had := now.Name(name, ""), before.Name(name, "")
	switch diff := want.Cmp(*had); {
	case diff == 0:
		return ""
	case want.IsZero():
		return "remove"
	case had.IsZero():
		return "add"
	case diff < 0:
		return "decrease"
	}
	return "increase"
}

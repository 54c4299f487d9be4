// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/qos"
)

// Exclusive are the policies of the managers that give CPUs or memory to containers alone, by resource: what these have does not
// change while the pod runs.
type Exclusive map[corev1.ResourceName]string

// Decide is the function of that name for a node with such managers.
func (e Exclusive) Decide(desired, have *corev1.Pod, node *corev1.Node, others []*corev1.Pod) (*corev1.Pod, *Pending) {
	if have != nil && qos.Of(desired) == corev1.PodQOSGuaranteed {
		for _, r := range []struct {
			name    corev1.ResourceName
			manager string
		}{{corev1.ResourceCPU, "CPU"}, {corev1.ResourceMemory, "Memory"}} {
			if policy, is := e[r.name]; is && resized(desired, have, r.name) {
				return keep(desired, have), &Pending{corev1.PodReasonInfeasible,
					fmt.Sprintf("Resize is infeasible for Guaranteed Pods alongside %s Manager policy %q", r.manager, policy)}
			}
		}
	}
	return Decide(desired, have, node, others)
}

// resized says whether a container asks for another amount of a resource than it has.
func resized(desired, have *corev1.Pod, name corev1.ResourceName) bool {
	of := map[string]corev1.ResourceRequirements{}
	for _, list := range [][]corev1.Container{have.Spec.InitContainers, have.Spec.Containers} {
		for _, c := range list {
			of[c.Name] = c.Resources
		}
	}
	for _, list := range [][]corev1.Container{desired.Spec.InitContainers, desired.Spec.Containers} {
		for _, c := range list {
			old, is := of[c.Name]
			if is && (c.Resources.Requests.Name(name, "").Cmp(*old.Requests.Name(name, "")) != 0 || c.Resources.Limits.Name(name, "").Cmp(*old.Limits.Name(name, "")) != 0) {
				return true
			}
		}
	}
	return false
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podgc

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Victim is a pod to be removed.
type Victim struct {
	Pod *corev1.Pod
	// Orphaned is set when its node is gone, which is a disruption that the pod's owner should know of.
	Orphaned bool
}

// missingNodes returns since when each node is missing that a pod names. before is the result of the previous pass.
func missingNodes(list []*corev1.Pod, nodes map[string]*corev1.Node, before map[string]time.Time, now time.Time) map[string]time.Time {
	missing := map[string]time.Time{}
	for _, pod := range list {
		name := pod.Spec.NodeName
		if name == "" || nodes[name] != nil {
			continue
		}
		if since, known := before[name]; known {
			missing[name] = since
		} else {
			missing[name] = now
		}
	}
	return missing
}

// Victims picks the pods to remove. gone holds the nodes that are known not to exist; threshold is the number of ended
// pods that are kept, 0 keeps all.
func Victims(list []*corev1.Pod, nodes map[string]*corev1.Node, gone map[string]bool, threshold int) []Victim {
	var victims []Victim
	var ended []*corev1.Pod
	for _, pod := range list {
		node := nodes[pod.Spec.NodeName]
		switch {
		case gone[pod.Spec.NodeName]:
			victims = append(victims, Victim{Pod: pod, Orphaned: true})
		case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
			victims = append(victims, Victim{Pod: pod})
		case pod.DeletionTimestamp != nil && node != nil && isOutOfService(node):
			victims = append(victims, Victim{Pod: pod})
		case pods.IsTerminal(pod):
			ended = append(ended, pod)
		}
	}
	if threshold > 0 && len(ended) > threshold {
		slices.SortFunc(ended, func(a, b *corev1.Pod) int {
			return cmp.Or(evictedFirst(a, b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		for _, pod := range ended[:len(ended)-threshold] {
			victims = append(victims, Victim{Pod: pod})
		}
	}
	return victims
}

// evictedFirst orders pods that a kubelet has evicted before others: those are as many as a node in need makes, and must not be why what
// a Job has still to look at goes.
func evictedFirst(a, b *corev1.Pod) int {
	evicted := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted" }
	switch {
	case evicted(a) == evicted(b):
		return 0
	case evicted(a):
		return -1
	default:
		return 1
	}
}

// isOutOfService reports whether an administrator has said, by a taint, that nothing runs on the node any more. It is not
// believed of a node that is ready.
func isOutOfService(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

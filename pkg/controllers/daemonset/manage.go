// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/history"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Plan is what one step does to the pods of a DaemonSet.
type Plan struct {
	// Create names the nodes that get a pod.
	Create []string
	// Delete are the pods to delete.
	Delete []*corev1.Pod
	// Notes are what the DaemonSet's events tell.
	Notes []Note
	// Wait is the time until a failed pod may be deleted; 0 when there is none.
	Wait time.Duration
}

// Note is an event to be.
type Note struct{ Type, Reason, Message string }

// Empty reports whether the plan changes no pod.
func (p *Plan) Empty() bool { return len(p.Create)+len(p.Delete) == 0 }

// ByNode sorts pods by the node they are on or meant for. A pod that has ended and is being deleted is as good as gone: its
// node gets the next one at once. A pod without a node is not one of ours and left out.
func ByNode(claimed []*corev1.Pod) map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range claimed {
		if pods.IsTerminal(pod) && pod.DeletionTimestamp != nil {
			continue
		}
		if node, err := target(pod); err == nil {
			byNode[node] = append(byNode[node], pod)
		}
	}
	return byNode
}

// Manage returns what it takes for each node to have the pod it should have, whatever its revision. backoff returns how long
// to wait before the failed pod on a node is replaced.
func Manage(ds *appsv1.DaemonSet, nodes []Node, byNode map[string][]*corev1.Pod, hash string, backoff func(node string) time.Duration, now time.Time) Plan {
	var plan Plan
	known := map[string]bool{}
	for _, node := range nodes {
		known[node.Name] = true
		here := byNode[node.Name]
		switch {
		case node.ShouldRun && len(here) == 0:
			plan.Create = append(plan.Create, node.Name)
		case node.ShouldKeep:
			running, held := plan.replaceEnded(node.Name, here, backoff)
			if node.ShouldRun && len(running) == 0 && !held && surges(ds) {
				// Who surges wants the next pod before the last one is gone.
				plan.Create = append(plan.Create, node.Name)
			}
			plan.Delete = append(plan.Delete, surplus(ds, running, hash, now)...)
		default:
			plan.Delete = append(plan.Delete, slices.DeleteFunc(slices.Clone(here), isDeleted)...)
		}
	}
	// A pod that waits for a node which is gone waits for ever.
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		if known[name] {
			continue
		}
		for _, pod := range byNode[name] {
			if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
				plan.Delete = append(plan.Delete, pod)
			}
		}
	}
	return plan
}

func isDeleted(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// replaceEnded plans the deletion of the pods that have ended and returns those that run; held tells that one which has failed is
// not to be replaced yet.
func (p *Plan) replaceEnded(node string, here []*corev1.Pod, backoff func(node string) time.Duration) (running []*corev1.Pod, held bool) {
	for _, pod := range here {
		switch {
		case isDeleted(pod):
		case pod.Status.Phase == corev1.PodFailed:
			if wait := backoff(node); wait > 0 {
				p.Wait, held = sooner(p.Wait, wait), true
				continue
			}
			p.Notes = append(p.Notes, Note{corev1.EventTypeWarning, "FailedDaemonPod",
				fmt.Sprintf("Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node)})
			p.Delete = append(p.Delete, pod)
		case pod.Status.Phase == corev1.PodSucceeded:
			p.Notes = append(p.Notes, Note{corev1.EventTypeNormal, "SucceededDaemonPod",
				fmt.Sprintf("Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)})
			p.Delete = append(p.Delete, pod)
		default:
			running = append(running, pod)
		}
	}
	return running, held
}

// surplus returns the running pods of one node that are too many: all but the oldest. While surging, an old pod stays beside
// the new one as long as it is ready and the new one is not available.
func surplus(ds *appsv1.DaemonSet, running []*corev1.Pod, hash string, now time.Time) []*corev1.Pod {
	if len(running) <= 1 {
		return nil
	}
	running = byAge(running)
	if !surges(ds) {
		return running[1:]
	}
	var oldestNew, oldestOld *corev1.Pod
	var rest []*corev1.Pod
	for _, pod := range running {
		switch isNew := pod.Labels[history.HashLabel] == hash; {
		case isNew && oldestNew == nil:
			oldestNew = pod
		case !isNew && oldestOld == nil:
			oldestOld = pod
		default:
			rest = append(rest, pod)
		}
	}
	if oldestNew != nil && oldestOld != nil && (!pods.IsReady(oldestOld) || pods.IsAvailable(oldestNew, ds.Spec.MinReadySeconds, now)) {
		rest = append(rest, oldestOld)
	}
	return rest
}

// byAge returns the pods sorted: those on a node first, then by age.
func byAge(list []*corev1.Pod) []*corev1.Pod {
	return slices.SortedStableFunc(slices.Values(list), func(a, b *corev1.Pod) int {
		if onA, onB := a.Spec.NodeName != "", b.Spec.NodeName != ""; onA != onB {
			if onA {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

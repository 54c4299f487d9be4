// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nominated remembers which pending pods wait for room on which node, so
// that others do not take the room that preemption made. Touch it when the
// meaning of status.nominatedNodeName changes.
package nominated

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Pods is the set of nominated pods. It is safe for concurrent use.
type Pods struct {
	mu     sync.RWMutex
	byNode map[string]map[types.UID]fwk.PodInfo // guarded by mu
	nodeOf map[types.UID]string                 // guarded by mu
	count  atomic.Int64                         // len(nodeOf), to be read without mu
}

// New returns an empty set.
func New() *Pods {
	return &Pods{byNode: map[string]map[types.UID]fwk.PodInfo{}, nodeOf: map[types.UID]string{}}
}

// Set nominates a pod to a node; an empty node ends the nomination.
func (p *Pods) Set(pod fwk.PodInfo, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(pod.GetPod().UID)
	if node == "" {
		return
	}
	p.nodeOf[pod.GetPod().UID] = node
	p.count.Add(1)
	if p.byNode[node] == nil {
		p.byNode[node] = map[types.UID]fwk.PodInfo{}
	}
	p.byNode[node][pod.GetPod().UID] = pod
}

// Refresh replaces a pod that waits for a node by a newer version of it.
func (p *Pods) Refresh(pod fwk.PodInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if node, ok := p.nodeOf[pod.GetPod().UID]; ok {
		p.byNode[node][pod.GetPod().UID] = pod
	}
}

// Remove ends a pod's nomination and reports whether it had one.
func (p *Pods) Remove(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(uid)
}

func (p *Pods) remove(uid types.UID) bool {
	node, ok := p.nodeOf[uid]
	if !ok {
		return false
	}
	delete(p.nodeOf, uid)
	p.count.Add(-1)
	delete(p.byNode[node], uid)
	if len(p.byNode[node]) == 0 {
		delete(p.byNode, node)
	}
	return true
}

// None tells whether no pod is nominated, without a lock.
func (p *Pods) None() bool { return p.count.Load() == 0 }

// NodeOf returns the node a pod is nominated to, empty if none.
func (p *Pods) NodeOf(uid types.UID) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.nodeOf[uid]
}

// The rest implements fwk.PodNominator.
var _ fwk.PodNominator = (*Pods)(nil)

// AddNominatedPod nominates a pod as info says, or as its status says without one.
func (p *Pods) AddNominatedPod(_ klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	node := pod.GetPod().Status.NominatedNodeName
	if info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	} else if node == "" {
		return
	}
	p.Set(pod, node)
}

// DeleteNominatedPodIfExists ends a pod's nomination.
func (p *Pods) DeleteNominatedPodIfExists(pod *corev1.Pod) { p.Remove(pod.UID) }

// UpdateNominatedPod replaces a pod by a newer version. A nomination that only we
// know of yet stays.
func (p *Pods) UpdateNominatedPod(_ klog.Logger, old *corev1.Pod, pod fwk.PodInfo) {
	node := pod.GetPod().Status.NominatedNodeName
	if node == "" && old.Status.NominatedNodeName == "" {
		node = p.NodeOf(old.UID)
	}
	p.Remove(old.UID)
	p.Set(pod, node)
}

// NominatedPodsForNode lists the pods nominated to a node, ordered by UID.
func (p *Pods) NominatedPodsForNode(node string) []fwk.PodInfo { return p.On(node) }

// On lists the pods nominated to a node, ordered by UID.
func (p *Pods) On(node string) []fwk.PodInfo {
	if p.None() {
		return nil // the common case, asked for every node of every cycle
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	pods := p.byNode[node]
	if len(pods) == 0 {
		return nil
	}
	out := make([]fwk.PodInfo, 0, len(pods))
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		out = append(out, pods[uid])
	}
	return out
}

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

	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Pods is the set of nominated pods. It is safe for concurrent use.
type Pods struct {
	mu     sync.RWMutex
	byNode map[string]map[types.UID]*framework.PodInfo // guarded by mu
	nodeOf map[types.UID]string                        // guarded by mu
}

// New returns an empty set.
func New() *Pods {
	return &Pods{byNode: map[string]map[types.UID]*framework.PodInfo{}, nodeOf: map[types.UID]string{}}
}

// Set nominates a pod to a node; an empty node ends the nomination.
func (p *Pods) Set(pod *framework.PodInfo, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(pod.Pod.UID)
	if node == "" {
		return
	}
	p.nodeOf[pod.Pod.UID] = node
	if p.byNode[node] == nil {
		p.byNode[node] = map[types.UID]*framework.PodInfo{}
	}
	p.byNode[node][pod.Pod.UID] = pod
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
	delete(p.byNode[node], uid)
	if len(p.byNode[node]) == 0 {
		delete(p.byNode, node)
	}
	return true
}

// NodeOf returns the node a pod is nominated to, empty if none.
func (p *Pods) NodeOf(uid types.UID) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.nodeOf[uid]
}

// On lists the pods nominated to a node, ordered by UID.
func (p *Pods) On(node string) []*framework.PodInfo {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pods := p.byNode[node]
	if len(pods) == 0 {
		return nil
	}
	out := make([]*framework.PodInfo, 0, len(pods))
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		out = append(out, pods[uid])
	}
	return out
}

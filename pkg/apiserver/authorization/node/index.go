// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// kind is a kind of object that pods refer to, or pods themselves.
type kind int

const (
	pod kind = iota
	secret
	configMap
	claim
	volume
	volumeAttachment
	serviceAccount
	resourceClaim
)

// ref is one such object.
type ref struct {
	kind            kind
	namespace, name string
}

// Index knows which objects belong to which nodes: the pods bound to a node, and what these refer to. Volumes and their
// attachments belong to none until this server serves them. Safe for concurrent use.
type Index struct {
	mu   sync.RWMutex // guards all below
	pods map[types.NamespacedName]placement
	// uses counts for each object the pods on each node that refer to it.
	uses map[ref]map[string]int
}

// placement is what a pod adds to the index.
type placement struct {
	node string
	refs map[ref]bool
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{pods: map[types.NamespacedName]placement{}, uses: map[ref]map[string]int{}}
}

// Has reports whether an object belongs to a node.
func (x *Index) Has(node string, r ref) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.uses[r][node] > 0
}

// Handler keeps the index up to date with an informer of pods.
func (x *Index) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { x.put(obj) },
		UpdateFunc: func(_, obj any) { x.put(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if p, ok := obj.(*corev1.Pod); ok {
				x.set(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, placement{})
			}
		},
	}
}

func (x *Index) put(obj any) {
	if p, ok := obj.(*corev1.Pod); ok {
		x.set(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, place(p))
	}
}

// set replaces what a pod adds; an empty placement removes it.
func (x *Index) set(key types.NamespacedName, p placement) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, known := x.pods[key]
	if known && old.node == p.node && maps.Equal(old.refs, p.refs) {
		return // most updates are of status
	}
	for r := range old.refs {
		if x.uses[r][old.node]--; x.uses[r][old.node] == 0 {
			delete(x.uses[r], old.node)
		}
		if len(x.uses[r]) == 0 {
			delete(x.uses, r)
		}
	}
	if p.node == "" {
		delete(x.pods, key)
		return
	}
	x.pods[key] = p
	for r := range p.refs {
		if x.uses[r] == nil {
			x.uses[r] = map[string]int{}
		}
		x.uses[r][p.node]++
	}
}

// place tells what a pod gives its node access to. A mirror pod stands for a file on the node: it gives access to nothing
// but itself.
func place(p *corev1.Pod) placement {
	if p.Spec.NodeName == "" {
		return placement{}
	}
	refs := map[ref]bool{{pod, p.Namespace, p.Name}: true}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		Visit(p, func(k, name string) { refs[ref{kinds[k], p.Namespace, name}] = true })
	}
	return placement{node: p.Spec.NodeName, refs: refs}
}

var kinds = map[string]kind{
	"Secret": secret, "ConfigMap": configMap, "PersistentVolumeClaim": claim, "ServiceAccount": serviceAccount, "ResourceClaim": resourceClaim,
}

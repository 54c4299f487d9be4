// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podreference"
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
	certificateRequest
	deviceSlice
)

// ref is one such object.
type ref struct {
	kind            kind
	namespace, name string
}

// Index knows which objects belong to which nodes: the pods bound to a node, what these refer to, the volumes of their claims
// with the Secrets by which they are mounted, and the requests for certificates, VolumeAttachments and ResourceSlices that name the node. Safe
// for concurrent use.
type Index struct {
	mu sync.RWMutex // guards all below
	// placed is what each object adds that is on a node.
	placed map[ref]placement
	// uses counts for each object what on each node refers to it.
	uses map[ref]map[string]int
	// volumes are those that name a claim, by name; mounting, the names of those that need a Secret.
	volumes  map[string]binding
	mounting map[ref]map[string]bool
	// claims are those that name a volume.
	claims map[ref]boundClaim
	// changed is closed by the next change; nil if nobody waits for one.
	changed chan struct{}
}

// placement is what an object adds to the index that is on a node.
type placement struct {
	node string
	refs map[ref]bool
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		placed: map[ref]placement{}, uses: map[ref]map[string]int{},
		volumes: map[string]binding{}, mounting: map[ref]map[string]bool{}, claims: map[ref]boundClaim{},
	}
}

// next is closed by the next change.
func (x *Index) next() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	return x.changed
}

// wake tells those who wait. The lock must be held.
func (x *Index) wake() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// Has reports whether an object belongs to a node.
func (x *Index) Has(node string, r ref) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if r.kind == volume {
		return x.hasVolume(node, r.name)
	}
	if x.uses[r][node] > 0 {
		return true
	}
	for name := range x.mounting[r] {
		if x.hasVolume(node, name) {
			return true
		}
	}
	return false
}

// hasVolume reports whether a pod on the node uses the claim that the volume is bound to. The claim has to name the volume
// too: who may only write volumes would otherwise give a node any Secret, by a volume that points to some claim of its pods.
// (Upstream's graph believes the volume.) The lock must be held.
func (x *Index) hasVolume(node, name string) bool {
	b, bound := x.volumes[name]
	return bound && x.claims[b.claim] == boundClaim{b.uid, name} && x.uses[b.claim][node] > 0
}

// Handler keeps the index up to date with an informer of pods, PersistentVolumes, PersistentVolumeClaims, VolumeAttachments,
// ResourceSlices or PodCertificateRequests.
func (x *Index) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { x.put(obj) },
		UpdateFunc: func(_, obj any) { x.put(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			switch o := obj.(type) {
			case *corev1.PersistentVolume:
				x.setVolume(o.Name, nil)
			case *corev1.PersistentVolumeClaim:
				x.setClaim(o, false)
			}
			if key, _, ok := place(obj); ok {
				x.set(key, placement{})
			}
		},
	}
}

func (x *Index) put(obj any) {
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		x.setVolume(o.Name, bind(o))
	case *corev1.PersistentVolumeClaim:
		x.setClaim(o, true)
	}
	if key, p, ok := place(obj); ok {
		x.set(key, p)
	}
}

// set replaces what an object adds; an empty placement removes it.
func (x *Index) set(key ref, p placement) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, known := x.placed[key]
	if known && old.node == p.node && maps.Equal(old.refs, p.refs) {
		return // most updates are of status
	}
	defer x.wake()
	for r := range old.refs {
		if x.uses[r][old.node]--; x.uses[r][old.node] == 0 {
			delete(x.uses[r], old.node)
		}
		if len(x.uses[r]) == 0 {
			delete(x.uses, r)
		}
	}
	if p.node == "" {
		delete(x.placed, key)
		return
	}
	x.placed[key] = p
	for r := range p.refs {
		if x.uses[r] == nil {
			x.uses[r] = map[string]int{}
		}
		x.uses[r][p.node]++
	}
}

// place tells what an object is, and what it gives its node access to; ok is false for kinds that give nothing.
func place(obj any) (key ref, p placement, ok bool) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return ref{pod, o.Namespace, o.Name}, placePod(o), true
	case *resourcev1.ResourceSlice:
		key := ref{kind: deviceSlice, name: o.Name}
		return key, placement{node: ptr.Deref(o.Spec.NodeName, ""), refs: map[ref]bool{key: true}}, true
	case *certificatesv1.PodCertificateRequest:
		key := ref{certificateRequest, o.Namespace, o.Name}
		return key, placement{node: string(o.Spec.NodeName), refs: map[ref]bool{key: true}}, true
	case *storagev1.VolumeAttachment:
		key := ref{kind: volumeAttachment, name: o.Name}
		return key, placement{node: o.Spec.NodeName, refs: map[ref]bool{key: true}}, true
	}
	return ref{}, placement{}, false
}

// placePod tells what a pod gives its node access to. A mirror pod stands for a file on the node: it gives access to nothing
// but itself.
func placePod(p *corev1.Pod) placement {
	if p.Spec.NodeName == "" {
		return placement{}
	}
	refs := map[ref]bool{{pod, p.Namespace, p.Name}: true}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		podreference.Visit(p, func(k, name string) { refs[ref{kinds[k], p.Namespace, name}] = true })
	}
	return placement{node: p.Spec.NodeName, refs: refs}
}

var kinds = map[string]kind{
	"Secret": secret, "ConfigMap": configMap, "PersistentVolumeClaim": claim, "ServiceAccount": serviceAccount, "ResourceClaim": resourceClaim,
}

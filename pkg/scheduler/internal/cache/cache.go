// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cache is the scheduler's picture of the cluster: every node with the
// pods on it, including those that were just placed and whose binding the watch
// has not shown yet. Touch it when a cycle must know a new fact cheaply.
package cache

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Cache holds nodes and their pods. It is safe for concurrent use. An assumed
// pod stays until it is forgotten (its binding failed) or until the watch shows
// the pod bound or gone, which a list-watch always does in the end; it therefore
// needs no expiry.
type Cache struct {
	mu      sync.Mutex
	nodes   map[string]*framework.NodeInfo // guarded by mu
	pods    map[types.UID]*placed          // guarded by mu
	dirty   sets.Set[string]               // guarded by mu; nodes changed since the last snapshot
	reorder bool                           // guarded by mu; nodes came, went or changed zone
	// snapshot is the last one. It is brought up to date in place, so that it costs
	// as much as changed; images are counted at the same moment.
	snapshot    *framework.Snapshot // guarded by mu
	images      map[string]*image   // guarded by mu
	imagesDirty sets.Set[string]    // guarded by mu
}

// image is the summary that all nodes with an image share.
type image struct {
	summary fwk.ImageStateSummary
	nodes   int // summary.NumNodes as of the next snapshot
}

type placed struct {
	info    *framework.PodInfo
	assumed bool
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{
		nodes:       map[string]*framework.NodeInfo{},
		pods:        map[types.UID]*placed{},
		dirty:       sets.New[string](),
		images:      map[string]*image{},
		imagesDirty: sets.New[string](),
		snapshot:    framework.NewSnapshot(),
	}
}

// Snapshot returns the current state, valid until the next call. It costs as much
// as changed since the last one.
func (c *Cache) Snapshot() *framework.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reorder {
		c.snapshot = framework.NewSnapshot(c.ordered()...)
		c.reorder = false
	} else if c.dirty.Len() > 0 {
		changed := make([]*framework.NodeInfo, 0, c.dirty.Len())
		for name := range c.dirty {
			if n := c.nodes[name]; n != nil && n.Node() != nil {
				changed = append(changed, n.Clone())
			}
		}
		c.snapshot.Replace(changed)
	}
	c.dirty.Clear()
	for name := range c.imagesDirty {
		i := c.images[name]
		if i.summary.NumNodes = i.nodes; i.nodes == 0 {
			delete(c.images, name)
		}
	}
	c.imagesDirty.Clear()
	return c.snapshot
}

// ordered returns copies of all known nodes such that zones take turns: the
// nodes that a sampled search looks at then lie in all zones.
func (c *Cache) ordered() []*framework.NodeInfo {
	zones := map[string][]*framework.NodeInfo{}
	for _, n := range c.nodes {
		if n.Node() != nil {
			z := zone(n.Node())
			zones[z] = append(zones[z], c.fresh(n))
		}
	}
	names := make([]string, 0, len(zones))
	total := 0
	for z, nodes := range zones {
		names = append(names, z)
		total += len(nodes)
		slices.SortFunc(nodes, func(a, b *framework.NodeInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	}
	slices.Sort(names)
	out := make([]*framework.NodeInfo, 0, total)
	for i := 0; len(out) < total; i++ {
		for _, z := range names {
			if i < len(zones[z]) {
				out = append(out, zones[z][i])
			}
		}
	}
	return out
}

// fresh returns the copy in the last snapshot if it is still true.
func (c *Cache) fresh(n *framework.NodeInfo) *framework.NodeInfo {
	if old, ok := c.snapshot.Node(n.Name()).(*framework.NodeInfo); ok && !c.dirty.Has(n.Name()) {
		return old
	}
	return n.Clone()
}

func zone(n *corev1.Node) string {
	return n.Labels[corev1.LabelTopologyRegion] + "/" + n.Labels[corev1.LabelTopologyZone]
}

// AddNode adds or replaces a node.
func (c *Cache) AddNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodeFor(node.Name)
	if n.Node() == nil || zone(n.Node()) != zone(node) {
		c.reorder = true
	}
	c.uncount(n)
	n.SetNode(node)
	n.ShareImages(c.count)
	c.dirty.Insert(node.Name)
}

// RemoveNode removes a node; its pods stay remembered until they are removed.
func (c *Cache) RemoveNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[name]
	if !ok {
		return
	}
	c.uncount(n)
	n.ForgetNode()
	c.reorder = true
	c.dirty.Insert(name)
	c.collect(name)
}

// count counts a node more that has an image. The size is that of the first one.
func (c *Cache) count(name string, size int64) *fwk.ImageStateSummary {
	i := c.images[name]
	if i == nil {
		i = &image{summary: fwk.ImageStateSummary{Size: size}}
		c.images[name] = i
	}
	i.nodes++
	c.imagesDirty.Insert(name)
	return &i.summary
}

// uncount counts a node less for each of its images.
func (c *Cache) uncount(n *framework.NodeInfo) {
	for name := range n.GetImageStates() {
		c.images[name].nodes--
		c.imagesDirty.Insert(name)
	}
}

// AddPod adds a pod that the watch shows on a node, or replaces an older version
// of it; an assumed pod is thereby confirmed. A version that changes nothing a
// cycle decides on, like most of a pod's status, leaves the snapshot as it is.
func (c *Cache) AddPod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[pod.UID]; p != nil && p.info.Pod.Spec.NodeName == pod.Spec.NodeName && same(p.info.Pod, pod) {
		p.info = p.info.WithPod(pod)
		p.assumed = false
		c.nodes[pod.Spec.NodeName].Replace(p.info)
		return
	}
	c.remove(pod.UID)
	c.put(framework.NewPodInfo(pod), false)
}

// same tells whether two versions of a pod on a node are the same to plugins: a
// status that tells neither of resources nor of a pod that goes is none of theirs.
func same(old, new *corev1.Pod) bool {
	return old.Generation == new.Generation && maps.Equal(old.Labels, new.Labels) &&
		(old.DeletionTimestamp == nil) == (new.DeletionTimestamp == nil) &&
		!framework.ResourcesMayDiffer(old, new) && disrupted(old) == disrupted(new) &&
		len(old.Status.ResourceClaimStatuses) == len(new.Status.ResourceClaimStatuses)
}

func disrupted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// RemovePod removes a pod, assumed or not, and reports whether it was there.
func (c *Cache) RemovePod(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remove(uid)
}

// Assume puts a pod on its spec.nodeName before it is bound.
func (c *Cache) Assume(info *framework.PodInfo) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pods[info.Pod.UID]; ok {
		return fmt.Errorf("pod %v(%v/%v) is in the cache, so can't be assumed", info.Pod.UID, info.Pod.Namespace, info.Pod.Name)
	}
	c.put(info, true)
	return nil
}

// Forget removes a pod if it is still only assumed, and returns it then, otherwise nil.
func (c *Cache) Forget(uid types.UID) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[uid]
	if p == nil || !p.assumed {
		return nil
	}
	c.remove(uid)
	return p.info.Pod
}

// Has tells whether the pod is on a node, assumed or not.
func (c *Cache) Has(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[uid] != nil
}

// Counts returns the numbers of known nodes, pods and assumed pods.
func (c *Cache) Counts() (nodes, pods, assumed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.Node() != nil {
			nodes++
		}
	}
	for _, p := range c.pods {
		if p.assumed {
			assumed++
		}
	}
	return nodes, len(c.pods), assumed
}

func (c *Cache) nodeFor(name string) *framework.NodeInfo {
	n, ok := c.nodes[name]
	if !ok {
		// Pods may be seen before their node.
		n = framework.NewNodeInfo(nil)
		c.nodes[name] = n
	}
	return n
}

func (c *Cache) put(info *framework.PodInfo, assumed bool) {
	node := info.Pod.Spec.NodeName
	c.nodeFor(node).AddPodInfo(info)
	c.dirty.Insert(node)
	c.pods[info.Pod.UID] = &placed{info: info, assumed: assumed}
}

func (c *Cache) remove(uid types.UID) bool {
	p, ok := c.pods[uid]
	if !ok {
		return false
	}
	delete(c.pods, uid)
	node := p.info.Pod.Spec.NodeName
	if n := c.nodes[node]; n != nil {
		n.Remove(uid)
		c.dirty.Insert(node)
		c.collect(node)
	}
	return true
}

// collect drops a node that is neither known nor has pods.
func (c *Cache) collect(name string) {
	if n := c.nodes[name]; n != nil && n.Node() == nil && len(n.GetPods()) == 0 {
		delete(c.nodes, name)
	}
}

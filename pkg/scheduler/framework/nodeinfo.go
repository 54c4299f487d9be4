// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// NodeInfo is a node with the pods on it and their sums. The cache changes its
// own; those in a Snapshot are never changed, plugins take a Snapshot of them to
// try things.
type NodeInfo struct {
	node                     *corev1.Node
	pods                     []fwk.PodInfo
	withAffinity             []fwk.PodInfo // have terms on other pods
	withRequiredAntiAffinity []fwk.PodInfo // have terms that can reject a newcomer
	portCounts               map[HostPort]int
	ports                    fwk.HostPortInfo
	requested                Resource
	nonZeroRequested         Resource
	allocatable              Resource
	images                   map[string]*fwk.ImageStateSummary
	claims                   map[string]int
	features                 ndf.FeatureSet
	generation               int64
}

var _ fwk.NodeInfo = (*NodeInfo)(nil)

// generations is the newest generation of all nodes.
var generations atomic.Int64

// NewNodeInfo returns the info of a node (nil if it is not known yet) with pods.
func NewNodeInfo(node *corev1.Node, pods ...*corev1.Pod) *NodeInfo {
	n := &NodeInfo{portCounts: map[HostPort]int{}, ports: fwk.HostPortInfo{}, claims: map[string]int{}}
	if node != nil {
		n.SetNode(node)
	}
	for _, p := range pods {
		n.AddPodInfo(NewPodInfo(p))
	}
	return n
}

// SetNode replaces the node and what is derived from it. Each image counts as
// being on this node only, until ShareImages.
func (n *NodeInfo) SetNode(node *corev1.Node) {
	n.generation = generations.Add(1)
	n.node = node
	n.allocatable = NewResource(node.Status.Allocatable)
	n.images = make(map[string]*fwk.ImageStateSummary, len(node.Status.Images))
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			n.images[name] = &fwk.ImageStateSummary{Size: image.SizeBytes, NumNodes: 1}
		}
	}
	// A feature that this version does not know is none that a pod of it needs.
	n.features = ndf.DefaultFramework.TryMap(node.Status.DeclaredFeatures)
}

// ShareImages replaces the summaries of the node's images by those of all nodes.
func (n *NodeInfo) ShareImages(of func(name string, size int64) *fwk.ImageStateSummary) {
	for name, own := range n.images {
		n.images[name] = of(name, own.Size)
	}
}

// CountImages makes nodes share the summaries of their images.
func CountImages(nodes []*NodeInfo) {
	all := map[string]*fwk.ImageStateSummary{}
	for _, n := range nodes {
		n.ShareImages(func(name string, size int64) *fwk.ImageStateSummary {
			if all[name] == nil {
				all[name] = &fwk.ImageStateSummary{Size: size}
			}
			all[name].NumNodes++
			return all[name]
		})
	}
}

// ForgetNode keeps the pods of a node that is gone, and nothing else: its images are not there to be counted.
func (n *NodeInfo) ForgetNode() { n.node, n.images = nil, nil }

// Node implements fwk.NodeInfo; it is nil while only pods of the node are known.
func (n *NodeInfo) Node() *corev1.Node { return n.node }

// Name is the node's name, empty if the node is not known.
func (n *NodeInfo) Name() string {
	if n.node == nil {
		return ""
	}
	return n.node.Name
}

// GetPods implements fwk.NodeInfo.
func (n *NodeInfo) GetPods() []fwk.PodInfo { return n.pods }

// GetPodsWithAffinity implements fwk.NodeInfo.
func (n *NodeInfo) GetPodsWithAffinity() []fwk.PodInfo { return n.withAffinity }

// GetPodsWithRequiredAntiAffinity implements fwk.NodeInfo.
func (n *NodeInfo) GetPodsWithRequiredAntiAffinity() []fwk.PodInfo { return n.withRequiredAntiAffinity }

// GetPodsWithRequiredNonHostScopedAntiAffinity implements fwk.NodeInfo: none, as without upstream's
// feature InterPodAffinityHostnameFastPath.
func (n *NodeInfo) GetPodsWithRequiredNonHostScopedAntiAffinity() []fwk.PodInfo { return nil }

// GetUsedPorts implements fwk.NodeInfo.
func (n *NodeInfo) GetUsedPorts() fwk.HostPortInfo { return n.ports }

// GetRequested implements fwk.NodeInfo.
func (n *NodeInfo) GetRequested() fwk.Resource { return &n.requested }

// GetNonZeroRequested implements fwk.NodeInfo.
func (n *NodeInfo) GetNonZeroRequested() fwk.Resource { return &n.nonZeroRequested }

// GetAllocatable implements fwk.NodeInfo.
func (n *NodeInfo) GetAllocatable() fwk.Resource { return &n.allocatable }

// GetImageStates implements fwk.NodeInfo.
func (n *NodeInfo) GetImageStates() map[string]*fwk.ImageStateSummary { return n.images }

// GetPVCRefCounts implements fwk.NodeInfo.
func (n *NodeInfo) GetPVCRefCounts() map[string]int { return n.claims }

// GetGeneration implements fwk.NodeInfo. It is another after each change, and that of no
// other node, but for copies that have not changed.
func (n *NodeInfo) GetGeneration() int64 { return n.generation }

// GetNodeDeclaredFeatures implements fwk.NodeInfo.
func (n *NodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet { return n.features }

// String implements fwk.NodeInfo.
func (n *NodeInfo) String() string {
	return fmt.Sprintf("node %q: %d pods, requested %+v of %+v", n.Name(), len(n.pods), n.requested, n.allocatable)
}

// AddPodInfo puts a pod on the node.
func (n *NodeInfo) AddPodInfo(p fwk.PodInfo) {
	n.pods = append(n.pods, p)
	anti := p.GetRequiredAntiAffinityTerms()
	if len(anti)+len(p.GetRequiredAffinityTerms())+len(p.GetPreferredAffinityTerms())+len(p.GetPreferredAntiAffinityTerms()) > 0 {
		n.withAffinity = append(n.withAffinity, p)
	}
	if len(anti) > 0 {
		n.withRequiredAntiAffinity = append(n.withRequiredAntiAffinity, p)
	}
	n.account(p, 1)
}

// RemovePod takes a pod off the node; it is an error if it was not there.
func (n *NodeInfo) RemovePod(_ klog.Logger, pod *corev1.Pod) error {
	if !n.Remove(pod.UID) {
		return fmt.Errorf("no corresponding pod %s in pods of node %s", klog.KObj(pod), n.Name())
	}
	return nil
}

// Remove takes the pod with this UID off the node and reports whether it was there.
func (n *NodeInfo) Remove(uid types.UID) bool {
	i := indexOf(n.pods, uid)
	if i < 0 {
		return false
	}
	p := n.pods[i]
	n.pods = slices.Delete(n.pods, i, i+1)
	if i := indexOf(n.withAffinity, uid); i >= 0 {
		n.withAffinity = slices.Delete(n.withAffinity, i, i+1)
	}
	if i := indexOf(n.withRequiredAntiAffinity, uid); i >= 0 {
		n.withRequiredAntiAffinity = slices.Delete(n.withRequiredAntiAffinity, i, i+1)
	}
	n.account(p, -1)
	return true
}

// Replace puts a newer version of a pod, which takes the same from the node, in
// the place of the older one and reports whether it was there.
func (n *NodeInfo) Replace(p fwk.PodInfo) bool {
	uid, found := p.GetPod().UID, false
	for _, list := range [][]fwk.PodInfo{n.pods, n.withAffinity, n.withRequiredAntiAffinity} {
		if i := indexOf(list, uid); i >= 0 {
			list[i], found = p, true
		}
	}
	return found
}

func (n *NodeInfo) account(pod fwk.PodInfo, sign int) {
	n.generation = generations.Add(1)
	p := AsPodInfo(pod)
	n.requested.add(&p.Requests, int64(sign))
	n.nonZeroRequested.add(&p.NonZeroRequests, int64(sign))
	for _, h := range p.Ports {
		before := n.portCounts[h]
		switch n.portCounts[h] += sign; {
		case before == 0:
			n.ports.Add(h.IP, string(h.Protocol), h.Port)
		case before+sign <= 0:
			delete(n.portCounts, h)
			n.ports.Remove(h.IP, string(h.Protocol), h.Port)
		}
	}
	for _, key := range p.Claims {
		if n.claims[key] += sign; n.claims[key] <= 0 {
			delete(n.claims, key)
		}
	}
}

// Snapshot implements fwk.NodeInfo.
func (n *NodeInfo) Snapshot() fwk.NodeInfo { return n.Clone() }

// Clone returns a copy that shares only immutable parts.
func (n *NodeInfo) Clone() *NodeInfo {
	c := *n
	c.pods = slices.Clone(n.pods)
	c.withAffinity = slices.Clone(n.withAffinity)
	c.withRequiredAntiAffinity = slices.Clone(n.withRequiredAntiAffinity)
	c.portCounts = maps.Clone(n.portCounts)
	c.ports = make(fwk.HostPortInfo, len(n.ports))
	for ip, ports := range n.ports {
		c.ports[ip] = maps.Clone(ports)
	}
	c.requested = n.requested.Clone()
	c.nonZeroRequested = n.nonZeroRequested.Clone()
	c.claims = maps.Clone(n.claims)
	return &c
}

func indexOf(pods []fwk.PodInfo, uid types.UID) int {
	return slices.IndexFunc(pods, func(p fwk.PodInfo) bool { return p.GetPod().UID == uid })
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeInfo is a node with the pods on it and their sums. The cache changes its
// own; those in a Snapshot are never changed, plugins clone them to try things.
type NodeInfo struct {
	Node *corev1.Node
	Pods []*PodInfo
	// WithAffinity are the pods that have terms on other pods.
	WithAffinity []*PodInfo
	// WithRequiredAntiAffinity are those whose terms can reject a newcomer.
	WithRequiredAntiAffinity []*PodInfo
	// UsedPorts counts the pods per host port.
	UsedPorts map[HostPort]int
	// Requested sums the pods' requests, NonZeroRequested those with defaults.
	Requested        Resource
	NonZeroRequested Resource
	Allocatable      Resource
	// Images maps every name of an image on the node to its size in bytes.
	Images map[string]int64
}

// NewNodeInfo returns the info of a node (nil if it is not known yet) with pods.
func NewNodeInfo(node *corev1.Node, pods ...*corev1.Pod) *NodeInfo {
	n := &NodeInfo{UsedPorts: map[HostPort]int{}}
	if node != nil {
		n.SetNode(node)
	}
	for _, p := range pods {
		n.AddPod(NewPodInfo(p))
	}
	return n
}

// SetNode replaces the node and what is derived from it.
func (n *NodeInfo) SetNode(node *corev1.Node) {
	n.Node = node
	n.Allocatable = NewResource(node.Status.Allocatable)
	n.Images = make(map[string]int64, len(node.Status.Images))
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			n.Images[name] = image.SizeBytes
		}
	}
}

// Name is the node's name, empty if the node is not known.
func (n *NodeInfo) Name() string {
	if n.Node == nil {
		return ""
	}
	return n.Node.Name
}

// AddPod puts a pod on the node.
func (n *NodeInfo) AddPod(p *PodInfo) {
	n.Pods = append(n.Pods, p)
	if p.HasAffinity() {
		n.WithAffinity = append(n.WithAffinity, p)
	}
	if len(p.RequiredAntiAffinity) > 0 {
		n.WithRequiredAntiAffinity = append(n.WithRequiredAntiAffinity, p)
	}
	n.account(p, 1)
}

// RemovePod takes the pod with this UID off the node and reports whether it was there.
func (n *NodeInfo) RemovePod(uid types.UID) bool {
	i := indexOf(n.Pods, uid)
	if i < 0 {
		return false
	}
	p := n.Pods[i]
	n.Pods = slices.Delete(n.Pods, i, i+1)
	if i := indexOf(n.WithAffinity, uid); i >= 0 {
		n.WithAffinity = slices.Delete(n.WithAffinity, i, i+1)
	}
	if i := indexOf(n.WithRequiredAntiAffinity, uid); i >= 0 {
		n.WithRequiredAntiAffinity = slices.Delete(n.WithRequiredAntiAffinity, i, i+1)
	}
	n.account(p, -1)
	return true
}

func (n *NodeInfo) account(p *PodInfo, sign int) {
	n.Requested.add(&p.Requests, int64(sign))
	n.NonZeroRequested.add(&p.NonZeroRequests, int64(sign))
	for _, h := range p.Ports {
		if n.UsedPorts[h] += sign; n.UsedPorts[h] <= 0 {
			delete(n.UsedPorts, h)
		}
	}
}

// Clone returns a copy that shares only immutable parts.
func (n *NodeInfo) Clone() *NodeInfo {
	c := *n
	c.Pods = slices.Clone(n.Pods)
	c.WithAffinity = slices.Clone(n.WithAffinity)
	c.WithRequiredAntiAffinity = slices.Clone(n.WithRequiredAntiAffinity)
	c.UsedPorts = maps.Clone(n.UsedPorts)
	c.Requested = n.Requested.Clone()
	c.NonZeroRequested = n.NonZeroRequested.Clone()
	return &c
}

func indexOf(pods []*PodInfo, uid types.UID) int {
	return slices.IndexFunc(pods, func(p *PodInfo) bool { return p.Pod.UID == uid })
}

// Snapshot is an immutable view of the cluster's nodes. Nodes are ordered so
// that zones alternate.
type Snapshot struct {
	Nodes []*NodeInfo
	// WithAffinity and WithRequiredAntiAffinity are the nodes that have such pods.
	WithAffinity             []*NodeInfo
	WithRequiredAntiAffinity []*NodeInfo
	// ImageNodes counts the nodes that have an image.
	ImageNodes map[string]int

	index map[string]int
}

// NewSnapshot derives a snapshot from nodes, which must not change afterwards.
func NewSnapshot(nodes ...*NodeInfo) *Snapshot {
	s := &Snapshot{Nodes: nodes, index: make(map[string]int, len(nodes)), ImageNodes: map[string]int{}}
	for i, n := range nodes {
		s.index[n.Name()] = i
	}
	s.deriveAffinity()
	s.deriveImages()
	return s
}

// Get returns a node by name, nil if it is not there.
func (s *Snapshot) Get(name string) *NodeInfo {
	if i, ok := s.index[name]; ok {
		return s.Nodes[i]
	}
	return nil
}

// With returns a snapshot in which some nodes, all of them present in s, are
// replaced. It costs a copy of a slice of pointers, and no more than the changed
// nodes demand.
func (s *Snapshot) With(changed []*NodeInfo) *Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	affinity, images := false, false
	for _, n := range changed {
		i := s.index[n.Name()]
		old := out.Nodes[i]
		affinity = affinity || len(old.WithAffinity) > 0 || len(n.WithAffinity) > 0
		images = images || !maps.Equal(old.Images, n.Images)
		out.Nodes[i] = n
	}
	if affinity {
		out.deriveAffinity()
	}
	if images {
		out.deriveImages()
	}
	return &out
}

func (s *Snapshot) deriveAffinity() {
	s.WithAffinity, s.WithRequiredAntiAffinity = nil, nil
	for _, n := range s.Nodes {
		if len(n.WithAffinity) > 0 {
			s.WithAffinity = append(s.WithAffinity, n)
		}
		if len(n.WithRequiredAntiAffinity) > 0 {
			s.WithRequiredAntiAffinity = append(s.WithRequiredAntiAffinity, n)
		}
	}
}

func (s *Snapshot) deriveImages() {
	s.ImageNodes = map[string]int{}
	for _, n := range s.Nodes {
		for name := range n.Images {
			s.ImageNodes[name]++
		}
	}
}

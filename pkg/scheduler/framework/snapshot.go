// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

// Snapshot is a view of the cluster's nodes, ordered so that zones alternate. It
// stays as it is until the next cycle begins; the nodes in it never change.
type Snapshot struct {
	nodes                    []fwk.NodeInfo
	generations              []int64 // of nodes, by place: to ask each node is a walk through all memory
	withAffinity             chosen  // have pods with terms on other pods
	withRequiredAntiAffinity chosen
	index                    map[string]int
	groups                   fwk.PodGroupManager  // as they are now
	saved                    map[int]fwk.NodeInfo // nodes as they were before a trial changed them; nil outside of one
}

var (
	_ fwk.MutableSnapshotSharedLister = (*Snapshot)(nil)
	_ fwk.NodeInfoLister              = (*Snapshot)(nil)
	_ fwk.StorageInfoLister           = (*Snapshot)(nil)
)

// NewSnapshot derives a snapshot from nodes, which must not change afterwards.
func NewSnapshot(nodes ...*NodeInfo) *Snapshot {
	s := &Snapshot{
		nodes: make([]fwk.NodeInfo, len(nodes)), generations: make([]int64, len(nodes)),
		index: make(map[string]int, len(nodes)), groups: NoGroups{},
	}
	for i, n := range nodes {
		s.index[n.Name()] = i
		s.put(i, n)
	}
	return s
}

// Nodes lists all nodes.
func (s *Snapshot) Nodes() []fwk.NodeInfo { return s.nodes }

// Node returns a node by name, nil if it is not there.
func (s *Snapshot) Node(name string) fwk.NodeInfo {
	if i, ok := s.index[name]; ok {
		return s.nodes[i]
	}
	return nil
}

// Replace puts newer versions of nodes, all of them present, into the snapshot.
// It costs no more than the changed nodes demand.
func (s *Snapshot) Replace(changed []*NodeInfo) {
	for _, n := range changed {
		s.put(s.index[n.Name()], n)
	}
}

// put puts a node at a place, and on the lists where it belongs.
func (s *Snapshot) put(place int, n *NodeInfo) {
	s.nodes[place], s.generations[place] = n, n.generation
	s.withAffinity.put(place, n, len(n.withAffinity) > 0)
	s.withRequiredAntiAffinity.put(place, n, len(n.withRequiredAntiAffinity) > 0)
}

// chosen are some of the nodes, in any order.
type chosen struct {
	nodes  []fwk.NodeInfo
	places []int       // in the snapshot, of each
	at     map[int]int // by place
}

// put replaces the node at a place of the snapshot, which may have become one of the chosen, or is none any more.
func (c *chosen) put(place int, n fwk.NodeInfo, is bool) {
	at, was := c.at[place]
	switch last := len(c.nodes) - 1; {
	case is && was:
		c.nodes[at] = n
	case is:
		if c.at == nil {
			c.at = map[int]int{}
		}
		c.nodes, c.places, c.at[place] = append(c.nodes, n), append(c.places, place), last+1
	case was:
		c.nodes[at], c.places[at], c.at[c.places[last]] = c.nodes[last], c.places[last], at
		c.nodes[last] = nil
		c.nodes, c.places = c.nodes[:last], c.places[:last]
		delete(c.at, place)
	}
}

// List implements fwk.NodeInfoLister.
func (s *Snapshot) List() ([]fwk.NodeInfo, error) { return s.nodes, nil }

// HavePodsWithAffinityList implements fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return s.withAffinity.nodes, nil
}

// HavePodsWithRequiredAntiAffinityList implements fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.withRequiredAntiAffinity.nodes, nil
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList implements fwk.NodeInfoLister: none, as without
// upstream's feature InterPodAffinityHostnameFastPath.
func (s *Snapshot) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}

// Get implements fwk.NodeInfoLister.
func (s *Snapshot) Get(name string) (fwk.NodeInfo, error) {
	if n := s.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
}

// IsPVCUsedByPods implements fwk.StorageInfoLister; it looks at every node.
func (s *Snapshot) IsPVCUsedByPods(key string) bool {
	for _, n := range s.nodes {
		if n.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

// NodeInfos implements fwk.SharedLister.
func (s *Snapshot) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos implements fwk.SharedLister.
func (s *Snapshot) StorageInfos() fwk.StorageInfoLister { return s }

// SetGroups says where plugins see pod groups: there, not as of the moment of the snapshot.
func (s *Snapshot) SetGroups(groups fwk.PodGroupManager) { s.groups = groups }

// PodGroups implements fwk.SharedLister.
func (s *Snapshot) PodGroups() fwk.PodGroupLister { return s.groups.PodGroups() }

// PodGroupStates implements fwk.SharedLister.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return s.groups.PodGroupStates() }

// CompositePodGroups implements fwk.SharedLister.
func (s *Snapshot) CompositePodGroups() fwk.CompositePodGroupLister {
	return s.groups.CompositePodGroups()
}

// CompositePodGroupStates implements fwk.SharedLister.
func (s *Snapshot) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return s.groups.CompositePodGroupStates()
}

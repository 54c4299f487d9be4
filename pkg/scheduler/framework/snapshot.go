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
	withAffinity             []fwk.NodeInfo // have pods with terms on other pods
	withRequiredAntiAffinity []fwk.NodeInfo
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
	s := &Snapshot{nodes: make([]fwk.NodeInfo, len(nodes)), index: make(map[string]int, len(nodes)), groups: NoGroups{}}
	for i, n := range nodes {
		s.nodes[i] = n
		s.index[n.Name()] = i
	}
	s.deriveAffinity()
	return s
}

// Nodes lists all nodes.
func (s *Snapshot) Nodes() []fwk.NodeInfo { return s.nodes }

// WithAffinity lists the nodes that have pods with terms on other pods.
func (s *Snapshot) WithAffinity() []fwk.NodeInfo { return s.withAffinity }

// WithRequiredAntiAffinity lists the nodes that have pods which can reject a newcomer.
func (s *Snapshot) WithRequiredAntiAffinity() []fwk.NodeInfo { return s.withRequiredAntiAffinity }

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
	affinity := false
	for _, n := range changed {
		i := s.index[n.Name()]
		affinity = affinity || len(s.nodes[i].GetPodsWithAffinity()) > 0 || len(n.withAffinity) > 0
		s.nodes[i] = n
	}
	if affinity {
		s.deriveAffinity()
	}
}

func (s *Snapshot) deriveAffinity() {
	s.withAffinity, s.withRequiredAntiAffinity = nil, nil
	for _, n := range s.nodes {
		if len(n.GetPodsWithAffinity()) > 0 {
			s.withAffinity = append(s.withAffinity, n)
		}
		if len(n.GetPodsWithRequiredAntiAffinity()) > 0 {
			s.withRequiredAntiAffinity = append(s.withRequiredAntiAffinity, n)
		}
	}
}

// List implements fwk.NodeInfoLister.
func (s *Snapshot) List() ([]fwk.NodeInfo, error) { return s.nodes, nil }

// HavePodsWithAffinityList implements fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return s.withAffinity, nil }

// HavePodsWithRequiredAntiAffinityList implements fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.withRequiredAntiAffinity, nil
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

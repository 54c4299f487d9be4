// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// StartMutations begins a trial: what is changed in the snapshot until EndMutations
// is undone then. It is for the goroutine of the cycles, while no plugin reads.
func (s *Snapshot) StartMutations() error {
	if s.saved != nil {
		return errors.New("a trial on this snapshot has not ended")
	}
	s.saved = map[int]fwk.NodeInfo{}
	return nil
}

// EndMutations undoes all that a trial has changed.
func (s *Snapshot) EndMutations() error {
	if s.saved == nil {
		return errors.New("there is no trial on this snapshot")
	}
	saved := s.saved
	s.saved = nil
	changed := make([]*NodeInfo, 0, len(saved))
	for _, n := range saved {
		changed = append(changed, n.(*NodeInfo))
	}
	s.Replace(changed)
	return nil
}

// AddPod puts a pod on a node for the time of a trial.
func (s *Snapshot) AddPod(pod fwk.PodInfo, node string) error {
	return s.change(node, func(n *NodeInfo) error {
		n.AddPodInfo(pod)
		return nil
	})
}

// RemovePod takes a pod off a node for the time of a trial.
func (s *Snapshot) RemovePod(logger klog.Logger, pod *corev1.Pod, node string) error {
	return s.change(node, func(n *NodeInfo) error { return n.RemovePod(logger, pod) })
}

// change works on a copy: plugins may have kept the node that is there.
func (s *Snapshot) change(node string, f func(*NodeInfo) error) error {
	i, ok := s.index[node]
	switch {
	case s.saved == nil:
		return errors.New("a snapshot changes in a trial only")
	case !ok:
		return fmt.Errorf("nodeinfo not found for node name %q", node)
	}
	before := s.nodes[i].(*NodeInfo)
	after := before.Clone()
	if err := f(after); err != nil {
		return err
	}
	if s.saved[i] == nil {
		s.saved[i] = before
	}
	s.Replace([]*NodeInfo{after})
	return nil
}

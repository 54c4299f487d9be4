// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// NodeStatuses holds why each node was rejected. Nodes that no filter looked at
// share the absent status.
type NodeStatuses struct {
	byNode map[string]*fwk.Status
	absent *fwk.Status
}

// NewNodeStatuses returns an empty set whose unlisted nodes have the status absent.
func NewNodeStatuses(absent *fwk.Status) *NodeStatuses {
	return &NodeStatuses{byNode: map[string]*fwk.Status{}, absent: absent}
}

// Set records the status of a node.
func (n *NodeStatuses) Set(node string, s *fwk.Status) { n.byNode[node] = s }

// SetAbsent changes the status of the nodes that are not recorded.
func (n *NodeStatuses) SetAbsent(s *fwk.Status) { n.absent = s }

var _ fwk.NodeToStatusReader = (*NodeStatuses)(nil)

// NodesForStatusCode implements fwk.NodeToStatusReader.
func (n *NodeStatuses) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	all, err := lister.List()
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var out []fwk.NodeInfo
	for _, node := range all {
		if n.Get(node.Node().Name).Code() == code {
			out = append(out, node)
		}
	}
	return out, nil
}

// Get returns the status of a node.
func (n *NodeStatuses) Get(node string) *fwk.Status {
	if s, ok := n.byNode[node]; ok {
		return s
	}
	return n.absent
}

// Len counts the recorded nodes.
func (n *NodeStatuses) Len() int { return len(n.byNode) }

// FitError says why a pod fits no node. Its text is what users read in the
// PodScheduled condition and in the FailedScheduling event.
type FitError struct {
	NumAllNodes int
	Statuses    *NodeStatuses
	// RejectedBy names the plugins whose events may help the pod.
	RejectedBy sets.Set[string]
	// PreFilterMsg is set if a PreFilter plugin rejected the pod for all nodes.
	PreFilterMsg string
	// PostFilterMsg is what the PostFilter plugins had to say.
	PostFilterMsg string
}

func (f *FitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "0/%d nodes are available:", f.NumAllNodes)
	if f.PreFilterMsg != "" {
		fmt.Fprintf(&b, " %s.", f.PreFilterMsg)
	} else if lines := f.histogram(); len(lines) > 0 {
		fmt.Fprintf(&b, " %s.", strings.Join(lines, ", "))
	}
	if f.PostFilterMsg != "" {
		fmt.Fprintf(&b, " %s", f.PostFilterMsg)
	}
	return b.String()
}

// histogram counts nodes per reason, sorted as text like upstream does.
func (f *FitError) histogram() []string {
	if f.Statuses == nil {
		return nil
	}
	count := map[string]int{}
	for s := range maps.Values(f.Statuses.byNode) {
		for _, r := range reasons(s) {
			count[r]++
		}
	}
	if rest := f.NumAllNodes - f.Statuses.Len(); rest > 0 {
		for _, r := range reasons(f.Statuses.absent) {
			count[r] += rest
		}
	}
	lines := make([]string, 0, len(count))
	for r, n := range count {
		lines = append(lines, fmt.Sprintf("%d %s", n, r))
	}
	slices.Sort(lines)
	return lines
}

func reasons(s *fwk.Status) []string {
	if s == nil {
		return nil
	}
	return s.Reasons()
}

// ErrNoNodes is the failure of every pod while the cluster has no node.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

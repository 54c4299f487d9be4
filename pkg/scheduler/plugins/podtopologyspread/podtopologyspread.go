// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtopologyspread spreads pods over the domains of a topology: a hard
// constraint filters, a soft one scores, and pods of a workload without
// constraints are spread softly by host and zone. Touch it for
// spec.topologySpreadConstraints.
package podtopologyspread

import (
	"context"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; the reasons are what users see.
const (
	Name                  = "PodTopologySpread"
	ErrReason             = "node(s) didn't match pod topology spread constraints"
	ErrReasonMissingLabel = ErrReason + " (missing required label)"

	filterKey = "PreFilter" + Name
	scoreKey  = "PreScore" + Name
)

// PodTopologySpread is the plugin.
type PodTopologySpread struct {
	handle   framework.Handle
	defaults defaults
}

var (
	_ framework.PreFilterPlugin = (*PodTopologySpread)(nil)
	_ framework.PodDeltaPlugin  = (*PodTopologySpread)(nil)
	_ framework.FilterPlugin    = (*PodTopologySpread)(nil)
	_ framework.PreScorePlugin  = (*PodTopologySpread)(nil)
	_ framework.NormalizePlugin = (*PodTopologySpread)(nil)
	_ framework.RequeuePlugin   = (*PodTopologySpread)(nil)
)

// New returns the plugin.
func New(h framework.Handle) (framework.Plugin, error) {
	return &PodTopologySpread{handle: h, defaults: newDefaults(h)}, nil
}

// Name returns the plugin's name.
func (*PodTopologySpread) Name() string { return Name }

// filterState has the matching pods per domain of each constraint.
type filterState struct {
	constraints []constraint
	affinity    nodeaffinityhelper.RequiredNodeAffinity
	counts      []map[string]int
	least       []int // smallest of counts, cached because Filter is called per node
}

// Clone copies the counts.
func (s *filterState) Clone() framework.StateData {
	c := *s
	c.counts = make([]map[string]int, len(s.counts))
	c.least = append([]int(nil), s.least...)
	for i, m := range s.counts {
		c.counts[i] = maps.Clone(m)
	}
	return &c
}

func (s *filterState) update(i int) {
	s.least[i] = math.MaxInt32
	for _, n := range s.counts[i] {
		s.least[i] = min(s.least[i], n)
	}
}

// PreFilter counts matching pods per domain.
func (*PodTopologySpread) PreFilter(ctx context.Context, state *framework.CycleState, pod *framework.PodInfo, snapshot *framework.Snapshot) (sets.Set[string], *framework.Status) {
	constraints, err := parse(pod.Pod, corev1.DoNotSchedule)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(constraints) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	s := &filterState{
		constraints: constraints,
		affinity:    nodeaffinityhelper.GetRequiredNodeAffinity(pod.Pod),
		counts:      make([]map[string]int, len(constraints)),
		least:       make([]int, len(constraints)),
	}
	for i := range constraints {
		s.counts[i] = map[string]int{}
	}
	for _, node := range snapshot.Nodes {
		if !hasKeys(node.Node, constraints) {
			continue
		}
		for i := range constraints {
			c := &constraints[i]
			if c.includes(ctx, pod.Pod, s.affinity, node.Node) {
				s.counts[i][node.Node.Labels[c.topologyKey]] += count(node.Pods, c.selector, pod.Pod.Namespace)
			}
		}
	}
	for i := range constraints {
		s.update(i)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// AddPod counts a pod more.
func (*PodTopologySpread) AddPod(ctx context.Context, state *framework.CycleState, pod, added *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	change(ctx, state, pod, added, node, 1)
	return nil
}

// RemovePod counts a pod less.
func (*PodTopologySpread) RemovePod(ctx context.Context, state *framework.CycleState, pod, removed *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	change(ctx, state, pod, removed, node, -1)
	return nil
}

func change(ctx context.Context, state *framework.CycleState, pod, other *framework.PodInfo, node *framework.NodeInfo, by int) {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok || other.Pod.Namespace != pod.Pod.Namespace || !hasKeys(node.Node, s.constraints) || other.Pod.DeletionTimestamp != nil {
		return
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		if !c.selector.Empty() && c.selector.Matches(labels.Set(other.Pod.Labels)) && c.includes(ctx, pod.Pod, s.affinity, node.Node) {
			s.counts[i][node.Node.Labels[c.topologyKey]] += by
			s.update(i)
		}
	}
}

// Filter rejects nodes on which the skew would grow too large.
func (*PodTopologySpread) Filter(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return nil
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := node.Node.Labels[c.topologyKey]
		if !ok {
			return framework.NewStatus(framework.UnschedulableAndUnresolvable, ErrReasonMissingLabel)
		}
		least := s.least[i]
		if len(s.counts[i]) < c.minDomains {
			// Missing domains count as empty ones (KEP-3022).
			least = 0
		}
		self := 0
		if c.selector.Matches(labels.Set(pod.Pod.Labels)) {
			self = 1
		}
		if s.counts[i][domain]+self-least > c.maxSkew {
			return framework.NewStatus(framework.Unschedulable, ErrReason)
		}
	}
	return nil
}

// Requeue implements framework.Plugin: a pod that is counted came, went or changed, or a domain did.
func (*PodTopologySpread) Requeue() []framework.Requeue {
	return []framework.Requeue{
		{
			Event: framework.ClusterEvent{Resource: framework.AssignedPod, Action: framework.Add | framework.Delete | framework.UpdateLabels},
			Hint: func(_ context.Context, pod *framework.PodInfo, old, new any) bool {
				constraints, err := parse(pod.Pod, corev1.DoNotSchedule)
				if err != nil {
					return true
				}
				for _, p := range []*corev1.Pod{framework.AsPod(old), framework.AsPod(new)} {
					if p == nil || p.Namespace != pod.Pod.Namespace {
						continue
					}
					for i := range constraints {
						if constraints[i].selector.Matches(labels.Set(p.Labels)) {
							return true
						}
					}
				}
				return false
			},
		},
		{Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add | framework.Delete | framework.UpdateLabels | framework.UpdateTaints}},
		{Event: framework.ClusterEvent{Resource: framework.PendingPod, Action: framework.UpdateLabels | framework.UpdateTolerations}},
	}
}

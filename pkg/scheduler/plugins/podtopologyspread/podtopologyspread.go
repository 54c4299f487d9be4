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
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
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
	handle   fwk.Handle
	defaults defaults
	totals   *lru.Cache // of *totals, by what they depend on
}

var (
	_ fwk.PreFilterPlugin     = (*PodTopologySpread)(nil)
	_ fwk.PreFilterExtensions = (*PodTopologySpread)(nil)
	_ fwk.FilterPlugin        = (*PodTopologySpread)(nil)
	_ fwk.PreScorePlugin      = (*PodTopologySpread)(nil)
	_ fwk.ScorePlugin         = (*PodTopologySpread)(nil)
	_ fwk.EnqueueExtensions   = (*PodTopologySpread)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.PodTopologySpreadArgs](obj)
	if err != nil {
		return nil, err
	}
	return &PodTopologySpread{handle: h, defaults: newDefaults(args, h), totals: lru.New(maxTotals)}, nil
}

// Name returns the plugin's name.
func (*PodTopologySpread) Name() string { return Name }

// filterState has the matching pods per domain of each constraint.
type filterState struct {
	constraints []constraint
	affinity    nodeaffinityhelper.RequiredNodeAffinity
	counts      counted
	least       []int // smallest of counts, cached because Filter is called per node
}

// Clone copies the counts.
func (s *filterState) Clone() fwk.StateData {
	c := *s
	c.counts = make(counted, len(s.counts))
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
func (p *PodTopologySpread) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	constraints, err := p.constraints(pod, corev1.DoNotSchedule)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(constraints) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s := &filterState{
		constraints: constraints,
		affinity:    nodeaffinityhelper.GetRequiredNodeAffinity(pod),
		counts:      make(counted, len(constraints)),
		least:       make([]int, len(constraints)),
	}
	for i := range constraints {
		s.counts[i] = p.count(ctx, pod, constraints, i, true, nodes)
		s.update(i)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// AddPod counts a pod more.
func (*PodTopologySpread) AddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	change(ctx, state, pod, added.GetPod(), node, 1)
	return nil
}

// RemovePod counts a pod less.
func (*PodTopologySpread) RemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	change(ctx, state, pod, removed.GetPod(), node, -1)
	return nil
}

func change(ctx context.Context, state fwk.CycleState, pod, other *corev1.Pod, node fwk.NodeInfo, by int) {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok || !hasKeys(node.Node(), s.constraints) || other.DeletionTimestamp != nil {
		return
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		if c.selects(other, pod.Namespace) && c.includes(ctx, pod, s.affinity, node.Node()) {
			s.counts[i][node.Node().Labels[c.topologyKey]] += by
			s.update(i)
		}
	}
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *PodTopologySpread) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// Filter rejects nodes on which the skew would grow too large.
func (*PodTopologySpread) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return nil
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := node.Node().Labels[c.topologyKey]
		if !ok {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonMissingLabel)
		}
		least := s.least[i]
		if len(s.counts[i]) < c.minDomains {
			// Missing domains count as empty ones (KEP-3022).
			least = 0
		}
		if s.counts[i][domain]+c.self-least > c.maxSkew {
			return fwk.NewStatus(fwk.Unschedulable, ErrReason)
		}
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions: a pod that is counted came or went, or
// counts now or no more, or a domain did.
func (p *PodTopologySpread) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.AssignedPod, fwk.Add|fwk.Delete|fwk.UpdatePodLabel, framework.Hint(p.podHelps)),
		framework.Event(fwk.Node, fwk.Add|fwk.Delete|fwk.UpdateNodeLabel|fwk.UpdateNodeTaint, framework.Hint(p.nodeHelps)),
		framework.Event(fwk.TargetPod, fwk.UpdatePodLabel|fwk.UpdatePodToleration, nil),
	}, nil
}

// podHelps tells whether a pod that came, went or got other labels changes what is counted for the waiting one.
func (p *PodTopologySpread) podHelps(pod *corev1.Pod, old, new any) bool {
	constraints, err := p.constraints(pod, corev1.DoNotSchedule)
	if err != nil {
		return true
	}
	before, after := framework.AsPod(old), framework.AsPod(new)
	return slices.ContainsFunc(constraints, func(c constraint) bool {
		counts := func(o *corev1.Pod) bool {
			return o != nil && o.Namespace == pod.Namespace && c.selector.Matches(labels.Set(o.Labels))
		}
		return counts(before) != counts(after)
	})
}

// nodeHelps tells whether a node that came, went or changed is in other domains than before, or its pods count now or no more.
func (p *PodTopologySpread) nodeHelps(pod *corev1.Pod, old, new any) bool {
	constraints, err := p.constraints(pod, corev1.DoNotSchedule)
	if err != nil {
		return true
	}
	before, after := framework.AsNode(old), framework.AsNode(new)
	was, is := before != nil && hasKeys(before, constraints), after != nil && hasKeys(after, constraints)
	if !was || !is {
		return was || is
	}
	affinity := nodeaffinityhelper.GetRequiredNodeAffinity(pod)
	wasMatched, _ := affinity.Match(before)
	isMatched, _ := affinity.Match(after)
	return wasMatched != isMatched || !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		slices.ContainsFunc(constraints, func(c constraint) bool { return before.Labels[c.topologyKey] != after.Labels[c.topologyKey] })
}

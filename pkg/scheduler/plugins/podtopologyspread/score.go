// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtopologyspread

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// scoreState has the matching pods per domain of each soft constraint.
type scoreState struct {
	constraints []constraint
	counts      []map[string]int // nil for the hostname: a node is its own domain
	weights     []float64
	ignored     sets.Set[string] // nodes outside of some domain
}

// Clone returns s itself, which never changes after PreScore.
func (s *scoreState) Clone() framework.StateData { return s }

// PreScore counts matching pods in the domains of the feasible nodes.
func (p *PodTopologySpread) PreScore(ctx context.Context, state *framework.CycleState, pod *framework.PodInfo, nodes []*framework.NodeInfo) *framework.Status {
	// Upstream's system defaults score nodes that lack a label too.
	strict := true
	constraints, err := parse(pod.Pod, corev1.ScheduleAnyway)
	if err == nil && len(pod.Pod.Spec.TopologySpreadConstraints) == 0 {
		constraints, err = p.defaults.constraints(pod.Pod)
		strict = false
	}
	if err != nil {
		return framework.AsStatus(fmt.Errorf("reading soft topology spread constraints: %w", err))
	}
	if len(constraints) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	s := &scoreState{
		constraints: constraints,
		counts:      make([]map[string]int, len(constraints)),
		weights:     make([]float64, len(constraints)),
		ignored:     sets.New[string](),
	}
	for _, n := range nodes {
		if strict && !hasKeys(n.Node, constraints) {
			s.ignored.Insert(n.Name())
		}
	}
	for i := range constraints {
		key := constraints[i].topologyKey
		size := len(nodes) - s.ignored.Len()
		if key != corev1.LabelHostname {
			s.counts[i] = map[string]int{}
			for _, n := range nodes {
				if domain, ok := n.Node.Labels[key]; ok && !s.ignored.Has(n.Name()) {
					s.counts[i][domain] = 0
				}
			}
			size = len(s.counts[i])
		}
		// More domains, more weight: else a skew among many is lost.
		s.weights[i] = math.Log(float64(size + 2))
	}
	affinity := nodeaffinityhelper.GetRequiredNodeAffinity(pod.Pod)
	for _, n := range p.handle.Snapshot().Nodes {
		if strict && !hasKeys(n.Node, constraints) {
			continue
		}
		for i := range constraints {
			c := &constraints[i]
			domain, ok := n.Node.Labels[c.topologyKey]
			if s.counts[i] == nil || !ok {
				continue
			}
			if _, known := s.counts[i][domain]; known && c.includes(ctx, pod.Pod, affinity, n.Node) {
				s.counts[i][domain] += count(n.Pods, c.selector, pod.Pod.Namespace)
			}
		}
	}
	state.Write(scoreKey, s)
	return nil
}

// Score grows with the matching pods in the node's domains; less is better.
func (*PodTopologySpread) Score(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) (int64, *framework.Status) {
	s, ok := framework.ReadState[*scoreState](state, scoreKey)
	if !ok || s.ignored.Has(node.Name()) {
		return 0, nil
	}
	var score float64
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := node.Node.Labels[c.topologyKey]
		if !ok {
			continue
		}
		var n int
		if s.counts[i] == nil {
			n = count(node.Pods, c.selector, pod.Pod.Namespace)
		} else {
			n = s.counts[i][domain]
		}
		// A larger maxSkew dampens the difference between domains.
		score += float64(n)*s.weights[i] + float64(c.maxSkew-1)
	}
	return int64(math.Round(score)), nil
}

// NormalizeScore turns less into better; ignored nodes get nothing.
func (*PodTopologySpread) NormalizeScore(_ context.Context, state *framework.CycleState, _ *framework.PodInfo, scores []framework.NodeScore) *framework.Status {
	s, ok := framework.ReadState[*scoreState](state, scoreKey)
	if !ok {
		return nil
	}
	least, most := int64(math.MaxInt64), int64(0)
	for _, n := range scores {
		if !s.ignored.Has(n.Name) {
			least, most = min(least, n.Score), max(most, n.Score)
		}
	}
	for i := range scores {
		switch {
		case s.ignored.Has(scores[i].Name):
			scores[i].Score = 0
		case most == 0:
			scores[i].Score = framework.MaxNodeScore
		default:
			scores[i].Score = framework.MaxNodeScore * (most + least - scores[i].Score) / most
		}
	}
	return nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtopologyspread

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// scoreState has the matching pods per domain of each soft constraint.
type scoreState struct {
	constraints []constraint
	counts      counted // nil for the hostname: a node is its own domain
	weights     []float64
	ignored     sets.Set[string] // nodes outside of some domain
}

// Clone returns s itself, which never changes after PreScore.
func (s *scoreState) Clone() fwk.StateData { return s }

// PreScore counts matching pods in the domains of the feasible nodes.
func (p *PodTopologySpread) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	// Upstream's system defaults score nodes that lack a label too.
	strict := len(pod.Spec.TopologySpreadConstraints) > 0 || !p.defaults.system()
	constraints, err := p.constraints(pod, corev1.ScheduleAnyway)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reading soft topology spread constraints: %w", err))
	}
	if len(constraints) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	s := &scoreState{
		constraints: constraints,
		counts:      make(counted, len(constraints)),
		weights:     make([]float64, len(constraints)),
		ignored:     sets.New[string](),
	}
	for _, n := range nodes {
		if strict && !hasKeys(n.Node(), constraints) {
			s.ignored.Insert(n.Node().Name)
		}
	}
	all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing nodes: %w", err))
	}
	for i := range constraints {
		key := constraints[i].topologyKey
		size := len(nodes) - s.ignored.Len()
		if key != corev1.LabelHostname {
			size = s.domains(key, nodes)
			s.counts[i] = p.count(ctx, pod, constraints, i, strict, all)
		}
		// More domains, more weight: else a skew among many is lost.
		s.weights[i] = math.Log(float64(size + 2))
	}
	state.Write(scoreKey, s)
	return nil
}

// domains is the number of those by a key that the nodes are in.
func (s *scoreState) domains(key string, nodes []fwk.NodeInfo) int {
	domains := sets.New[string]()
	for _, n := range nodes {
		if domain, ok := n.Node().Labels[key]; ok && !s.ignored.Has(n.Node().Name) {
			domains.Insert(domain)
		}
	}
	return domains.Len()
}

// Score grows with the matching pods in the node's domains; less is better.
func (*PodTopologySpread) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := framework.ReadState[*scoreState](state, scoreKey)
	if !ok || s.ignored.Has(node.Node().Name) {
		return 0, nil
	}
	var score float64
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := node.Node().Labels[c.topologyKey]
		if !ok {
			continue
		}
		var n int
		if s.counts[i] == nil {
			n = c.count(node.GetPods(), pod.Namespace)
		} else {
			n = s.counts[i][domain]
		}
		// A larger maxSkew dampens the difference between domains.
		score += float64(n)*s.weights[i] + float64(c.maxSkew-1)
	}
	return int64(math.Round(score)), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *PodTopologySpread) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns less into better; ignored nodes get nothing.
func (*PodTopologySpread) NormalizeScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
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
			scores[i].Score = fwk.MaxScore
		default:
			scores[i].Score = fwk.MaxScore * (most + least - scores[i].Score) / most
		}
	}
	return nil
}

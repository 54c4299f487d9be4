// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package interpodaffinity

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// hardAffinityWeight is what a running pod's required affinity to the incoming
// pod is worth, so that affinity is symmetric. Upstream's default.
const hardAffinityWeight = 1

// scoreState has the sum of weights per topology key and value.
type scoreState map[string]map[string]int64

// Clone returns s itself, which never changes after PreScore.
func (s scoreState) Clone() framework.StateData { return s }

func (s scoreState) add(node *corev1.Node, key string, weight int64) {
	value, ok := node.Labels[key]
	if !ok {
		return
	}
	if s[key] == nil {
		s[key] = map[string]int64{}
	}
	s[key][value] += weight
}

// PreScore sums the weights of matching terms of the incoming and of running pods.
func (p *InterPodAffinity) PreScore(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, _ []*framework.NodeInfo) *framework.Status {
	snapshot := p.handle.Snapshot()
	own := len(pod.PreferredAffinity)+len(pod.PreferredAntiAffinity) > 0
	nodes := snapshot.WithAffinity
	if own {
		nodes = snapshot.Nodes
	}
	if len(nodes) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	affinity, err := p.resolveWeighted(pod.PreferredAffinity)
	if err != nil {
		return framework.AsStatus(err)
	}
	anti, err := p.resolveWeighted(pod.PreferredAntiAffinity)
	if err != nil {
		return framework.AsStatus(err)
	}
	namespace := p.namespaceLabels(pod.Pod.Namespace)
	s := scoreState{}
	for _, n := range nodes {
		pods := n.WithAffinity
		if own {
			pods = n.Pods
		}
		for _, other := range pods {
			for i := range affinity {
				if affinity[i].Matches(other.Pod, nil) {
					s.add(n.Node, affinity[i].TopologyKey, affinity[i].Weight)
				}
			}
			for i := range anti {
				if anti[i].Matches(other.Pod, nil) {
					s.add(n.Node, anti[i].TopologyKey, -anti[i].Weight)
				}
			}
			for i := range other.RequiredAffinity {
				if t := &other.RequiredAffinity[i]; t.Matches(pod.Pod, namespace) {
					s.add(n.Node, t.TopologyKey, hardAffinityWeight)
				}
			}
			for i := range other.PreferredAffinity {
				if t := &other.PreferredAffinity[i]; t.Matches(pod.Pod, namespace) {
					s.add(n.Node, t.TopologyKey, t.Weight)
				}
			}
			for i := range other.PreferredAntiAffinity {
				if t := &other.PreferredAntiAffinity[i]; t.Matches(pod.Pod, namespace) {
					s.add(n.Node, t.TopologyKey, -t.Weight)
				}
			}
		}
	}
	if len(s) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(scoreKey, s)
	return nil
}

func (p *InterPodAffinity) resolveWeighted(terms []framework.WeightedAffinityTerm) ([]framework.WeightedAffinityTerm, error) {
	out := make([]framework.WeightedAffinityTerm, len(terms))
	for i, t := range terms {
		resolved, err := p.resolve([]framework.AffinityTerm{t.AffinityTerm})
		if err != nil {
			return nil, err
		}
		out[i] = framework.WeightedAffinityTerm{AffinityTerm: resolved[0], Weight: t.Weight}
	}
	return out, nil
}

// Score sums the weights of the node's domains; it may be negative.
func (*InterPodAffinity) Score(_ context.Context, state *framework.CycleState, _ *framework.PodInfo, node *framework.NodeInfo) (int64, *framework.Status) {
	s, ok := framework.ReadState[scoreState](state, scoreKey)
	if !ok {
		return 0, nil
	}
	var sum int64
	for key, weights := range s {
		if value, ok := node.Node.Labels[key]; ok {
			sum += weights[value]
		}
	}
	return sum, nil
}

// NormalizeScore stretches the scores over the whole range.
func (*InterPodAffinity) NormalizeScore(_ context.Context, _ *framework.CycleState, _ *framework.PodInfo, scores []framework.NodeScore) *framework.Status {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, n := range scores {
		least, most = min(least, n.Score), max(most, n.Score)
	}
	for i := range scores {
		if most == least {
			scores[i].Score = 0
		} else {
			scores[i].Score = framework.MaxNodeScore * (scores[i].Score - least) / (most - least)
		}
	}
	return nil
}

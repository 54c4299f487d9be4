// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package interpodaffinity

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// scoreState has the sum of weights per topology key and value.
type scoreState map[string]map[string]int64

// Clone returns s itself, which never changes after PreScore.
func (s scoreState) Clone() fwk.StateData { return s }

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
func (p *InterPodAffinity) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	info, lister := framework.InfoOf(state, pod), p.handle.SnapshotSharedLister().NodeInfos()
	own := len(info.PreferredAffinity)+len(info.PreferredAntiAffinity) > 0
	if !own && p.args.IgnorePreferredTermsOfExistingPods {
		return fwk.NewStatus(fwk.Skip)
	}
	list := lister.HavePodsWithAffinityList
	if own {
		list = lister.List
	}
	nodes, err := list()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing nodes: %w", err))
	}
	if len(nodes) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	affinity, err := p.resolveWeighted(info.PreferredAffinity)
	if err != nil {
		return fwk.AsStatus(err)
	}
	anti, err := p.resolveWeighted(info.PreferredAntiAffinity)
	if err != nil {
		return fwk.AsStatus(err)
	}
	namespace := p.namespaceLabels(pod.Namespace)
	s := scoreState{}
	for _, n := range nodes {
		pods := n.GetPodsWithAffinity()
		if own {
			pods = n.GetPods()
		}
		for _, o := range pods {
			other := framework.AsPodInfo(o)
			for i := range affinity {
				if affinity[i].Matches(other.Pod, nil) {
					s.add(n.Node(), affinity[i].TopologyKey, int64(affinity[i].Weight))
				}
			}
			for i := range anti {
				if anti[i].Matches(other.Pod, nil) {
					s.add(n.Node(), anti[i].TopologyKey, -int64(anti[i].Weight))
				}
			}
			for i := range other.RequiredAffinity {
				if t := &other.RequiredAffinity[i]; t.Matches(pod, namespace) {
					s.add(n.Node(), t.TopologyKey, int64(*p.args.HardPodAffinityWeight))
				}
			}
			for i := range other.PreferredAffinity {
				if t := &other.PreferredAffinity[i]; t.Matches(pod, namespace) {
					s.add(n.Node(), t.TopologyKey, int64(t.Weight))
				}
			}
			for i := range other.PreferredAntiAffinity {
				if t := &other.PreferredAntiAffinity[i]; t.Matches(pod, namespace) {
					s.add(n.Node(), t.TopologyKey, -int64(t.Weight))
				}
			}
		}
	}
	if len(s) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoreKey, s)
	return nil
}

func (p *InterPodAffinity) resolveWeighted(terms []fwk.WeightedAffinityTerm) ([]fwk.WeightedAffinityTerm, error) {
	out := make([]fwk.WeightedAffinityTerm, len(terms))
	for i, t := range terms {
		resolved, err := p.resolve([]fwk.AffinityTerm{t.AffinityTerm})
		if err != nil {
			return nil, err
		}
		out[i] = fwk.WeightedAffinityTerm{AffinityTerm: resolved[0], Weight: t.Weight}
	}
	return out, nil
}

// Score sums the weights of the node's domains; it may be negative.
func (*InterPodAffinity) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := framework.ReadState[scoreState](state, scoreKey)
	if !ok {
		return 0, nil
	}
	var sum int64
	for key, weights := range s {
		if value, ok := node.Node().Labels[key]; ok {
			sum += weights[value]
		}
	}
	return sum, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *InterPodAffinity) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore stretches the scores over the whole range.
func (*InterPodAffinity) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, n := range scores {
		least, most = min(least, n.Score), max(most, n.Score)
	}
	for i := range scores {
		if most == least {
			scores[i].Score = 0
		} else {
			scores[i].Score = fwk.MaxScore * (scores[i].Score - least) / (most - least)
		}
	}
	return nil
}

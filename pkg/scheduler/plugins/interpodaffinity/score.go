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

// scoreState are numbers of pods with what each is worth. They are the plugin's, and change with the next cycle.
type scoreState []weighted

type weighted struct {
	key    string // of the topology
	pods   counts
	weight int64
}

// Clone returns s itself, which never changes after PreScore.
func (s scoreState) Clone() fwk.StateData { return s }

// PreScore weighs the matching terms of the incoming and of running pods.
func (p *InterPodAffinity) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	info := framework.InfoOf(state, pod)
	own := len(info.PreferredAffinity)+len(info.PreferredAntiAffinity) > 0
	if !own && p.args.IgnorePreferredTermsOfExistingPods {
		return fwk.NewStatus(fwk.Skip)
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing nodes: %w", err))
	}
	var s scoreState
	for _, terms := range []struct {
		list []fwk.WeightedAffinityTerm
		sign int64
	}{{info.PreferredAffinity, 1}, {info.PreferredAntiAffinity, -1}} {
		for _, t := range terms.list {
			resolved, err := p.resolve([]fwk.AffinityTerm{t.AffinityTerm})
			if err != nil {
				return fwk.AsStatus(err)
			}
			s.add(t.TopologyKey, p.count(resolved, nodes), terms.sign*int64(t.Weight))
		}
	}
	namespace := p.namespaceLabels(pod.Namespace)
	carried, err := p.carriedTerms()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing nodes that have pods with terms: %w", err))
	}
	for _, t := range carried {
		if t.kind != requiredAntiAffinity && t.term.Matches(pod, namespace) {
			s.add(t.term.TopologyKey, t.pods, p.worth(t))
		}
	}
	if len(s) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoreKey, s)
	return nil
}

func (s *scoreState) add(key string, pods counts, weight int64) {
	if len(pods) > 0 && weight != 0 {
		*s = append(*s, weighted{key, pods, weight})
	}
}

// worth is what a pod that has a term adds for one that the term selects.
func (p *InterPodAffinity) worth(t *carriedTerm) int64 {
	switch t.kind {
	case requiredAffinity:
		return int64(*p.args.HardPodAffinityWeight)
	case preferredAntiAffinity:
		return -int64(t.weight)
	default:
		return int64(t.weight)
	}
}

// Score sums the weights of the node's domains; it may be negative.
func (*InterPodAffinity) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := framework.ReadState[scoreState](state, scoreKey)
	if !ok {
		return 0, nil
	}
	var sum int64
	for i := range s {
		if value, ok := node.Node().Labels[s[i].key]; ok {
			sum += int64(s[i].pods[domain{s[i].key, value}]) * s[i].weight
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeaffinity matches pods to nodes by nodeSelector, required and
// preferred node affinity. Touch it when node selectors get a new operator.
package nodeaffinity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "NodeAffinity"
	ErrReason = "node(s) didn't match Pod's node affinity/selector"

	filterKey = "PreFilter" + Name
	scoreKey  = "PreScore" + Name
)

// NodeAffinity is the plugin.
type NodeAffinity struct{}

var (
	_ framework.PreFilterPlugin = (*NodeAffinity)(nil)
	_ framework.FilterPlugin    = (*NodeAffinity)(nil)
	_ framework.PreScorePlugin  = (*NodeAffinity)(nil)
	_ framework.NormalizePlugin = (*NodeAffinity)(nil)
	_ framework.RequeuePlugin   = (*NodeAffinity)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &NodeAffinity{}, nil }

// Name returns the plugin's name.
func (*NodeAffinity) Name() string { return Name }

type required struct {
	nodeaffinityhelper.RequiredNodeAffinity
}

// Clone returns r itself, which never changes.
func (r *required) Clone() framework.StateData { return r }

// PreFilter parses the affinity. Terms that all name nodes by metadata.name,
// like those of DaemonSet pods, narrow the search to these nodes.
func (*NodeAffinity) PreFilter(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, _ *framework.Snapshot) (sets.Set[string], *framework.Status) {
	terms := requiredTerms(pod.Pod)
	if terms == nil && len(pod.Pod.Spec.NodeSelector) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(filterKey, &required{nodeaffinityhelper.GetRequiredNodeAffinity(pod.Pod)})
	nodes := namedNodes(terms)
	if nodes != nil && nodes.Len() == 0 {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "pod affinity terms conflict")
	}
	return nodes, nil
}

func requiredTerms(pod *corev1.Pod) *corev1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// namedNodes returns the nodes that the terms allow by name, nil if a term
// allows others too. Terms are alternatives, the requirements of a term are not.
func namedNodes(selector *corev1.NodeSelector) sets.Set[string] {
	if selector == nil || len(selector.NodeSelectorTerms) == 0 {
		return nil
	}
	all := sets.New[string]()
	for _, term := range selector.NodeSelectorTerms {
		var names sets.Set[string]
		for _, r := range term.MatchFields {
			if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if s := sets.New(r.Values...); names == nil {
				names = s
			} else {
				names = names.Intersection(s)
			}
		}
		if names == nil {
			return nil
		}
		all = all.Union(names)
	}
	return all
}

// Filter rejects nodes that do not match.
func (*NodeAffinity) Filter(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	r, ok := framework.ReadState[*required](state, filterKey)
	if !ok {
		r = &required{nodeaffinityhelper.GetRequiredNodeAffinity(pod.Pod)}
	}
	// A term that does not parse matches nothing; the API server does not let it in.
	if match, _ := r.Match(node.Node); !match {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

type preferred struct {
	*nodeaffinityhelper.PreferredSchedulingTerms
}

// Clone returns p itself, which never changes.
func (p *preferred) Clone() framework.StateData { return p }

// PreScore parses the preferred terms.
func (*NodeAffinity) PreScore(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, _ []*framework.NodeInfo) *framework.Status {
	a := pod.Pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	terms, err := nodeaffinityhelper.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return framework.AsStatus(fmt.Errorf("parsing preferred node affinity: %w", err))
	}
	state.Write(scoreKey, &preferred{terms})
	return nil
}

// Score sums the weights of the terms that match.
func (*NodeAffinity) Score(_ context.Context, state *framework.CycleState, _ *framework.PodInfo, node *framework.NodeInfo) (int64, *framework.Status) {
	if p, ok := framework.ReadState[*preferred](state, scoreKey); ok {
		return p.Score(node.Node), nil
	}
	return 0, nil
}

// NormalizeScore scales to the best node.
func (*NodeAffinity) NormalizeScore(_ context.Context, _ *framework.CycleState, _ *framework.PodInfo, scores []framework.NodeScore) *framework.Status {
	framework.Normalize(scores)
	return nil
}

// Requeue implements framework.Plugin: a node that matches now.
func (*NodeAffinity) Requeue() []framework.Requeue {
	return []framework.Requeue{{
		Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add | framework.UpdateLabels},
		Hint: func(_ context.Context, pod *framework.PodInfo, _, new any) bool {
			node := framework.AsNode(new)
			if node == nil {
				return true
			}
			match, err := nodeaffinityhelper.GetRequiredNodeAffinity(pod.Pod).Match(node)
			return match || err != nil
		},
	}}
}

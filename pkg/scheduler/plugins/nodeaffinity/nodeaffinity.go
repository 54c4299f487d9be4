// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeaffinity matches pods to nodes by nodeSelector, required and
// preferred node affinity. Touch it when node selectors get a new operator.
package nodeaffinity

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; the reasons are what users see.
const (
	Name           = "NodeAffinity"
	ErrReason      = "node(s) didn't match Pod's node affinity/selector"
	ErrReasonAdded = "node(s) didn't match scheduler-enforced node affinity"

	filterKey = "PreFilter" + Name
	scoreKey  = "PreScore" + Name
)

// NodeAffinity is the plugin.
type NodeAffinity struct {
	// added is what the profile demands of all pods, nil if nothing.
	added *nodeaffinityhelper.NodeSelector
	// addedTerms is what it prefers for all pods, nil if nothing.
	addedTerms *nodeaffinityhelper.PreferredSchedulingTerms
}

var (
	_ fwk.PreFilterPlugin   = (*NodeAffinity)(nil)
	_ fwk.FilterPlugin      = (*NodeAffinity)(nil)
	_ fwk.PreScorePlugin    = (*NodeAffinity)(nil)
	_ fwk.ScorePlugin       = (*NodeAffinity)(nil)
	_ fwk.EnqueueExtensions = (*NodeAffinity)(nil)
	_ framework.NodeLocal   = (*NodeAffinity)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.NodeAffinityArgs](obj)
	if err != nil {
		return nil, err
	}
	p := &NodeAffinity{}
	if args.AddedAffinity == nil {
		return p, nil
	}
	if r := args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		if p.added, err = nodeaffinityhelper.NewNodeSelector(r); err != nil {
			return nil, fmt.Errorf("parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	if terms := args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		if p.addedTerms, err = nodeaffinityhelper.NewPreferredSchedulingTerms(terms); err != nil {
			return nil, fmt.Errorf("parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	return p, nil
}

// Name returns the plugin's name.
func (*NodeAffinity) Name() string { return Name }

type required struct {
	nodeaffinityhelper.RequiredNodeAffinity
}

// Clone returns r itself, which never changes.
func (r *required) Clone() fwk.StateData { return r }

// PreFilter parses the affinity. Terms that all name nodes by metadata.name,
// like those of DaemonSet pods, narrow the search to these nodes.
func (p *NodeAffinity) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	terms := requiredTerms(pod)
	if terms == nil && len(pod.Spec.NodeSelector) == 0 && p.added == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(filterKey, &required{nodeaffinityhelper.GetRequiredNodeAffinity(pod)})
	nodes := namedNodes(terms)
	if nodes != nil && nodes.Len() == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "pod affinity terms conflict")
	}
	return &fwk.PreFilterResult{NodeNames: nodes}, nil
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

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*NodeAffinity) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that do not match.
func (p *NodeAffinity) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.added != nil && !p.added.Match(node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonAdded)
	}
	r, ok := framework.ReadState[*required](state, filterKey)
	if !ok {
		r = &required{nodeaffinityhelper.GetRequiredNodeAffinity(pod)}
	}
	// A term that does not parse matches nothing; the API server does not let it in.
	if match, _ := r.Match(node.Node()); !match {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

type preferred struct {
	*nodeaffinityhelper.PreferredSchedulingTerms
}

// Clone returns p itself, which never changes.
func (p *preferred) Clone() fwk.StateData { return p }

// PreScore parses the preferred terms.
func (p *NodeAffinity) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		if p.addedTerms == nil {
			return fwk.NewStatus(fwk.Skip)
		}
		return nil
	}
	terms, err := nodeaffinityhelper.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("parsing preferred node affinity: %w", err))
	}
	state.Write(scoreKey, &preferred{terms})
	return nil
}

// Score sums the weights of the terms that match.
func (p *NodeAffinity) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	var sum int64
	if p.addedTerms != nil {
		sum = p.addedTerms.Score(node.Node())
	}
	if own, ok := framework.ReadState[*preferred](state, scoreKey); ok {
		sum += own.Score(node.Node())
	}
	return sum, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *NodeAffinity) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales to the best node.
func (*NodeAffinity) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	framework.Normalize(scores)
	return nil
}

// AppendSignature implements framework.NodeLocal.
func (*NodeAffinity) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	selector := pod.Pod.Spec.NodeSelector
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		to = fmt.Appendf(to, "%q=%q,", key, selector[key])
	}
	if a := pod.Pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return framework.AppendMessage(to, a.NodeAffinity)
	}
	return to, true
}

// EventsToRegister implements fwk.EnqueueExtensions: a node that matches now, and did not before.
func (p *NodeAffinity) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeLabel, framework.Hint(func(pod *corev1.Pod, old, new any) bool {
		before, after := framework.AsNode(old), framework.AsNode(new)
		if after == nil {
			return true
		}
		required := nodeaffinityhelper.GetRequiredNodeAffinity(pod)
		matches := func(node *corev1.Node) bool {
			match, _ := required.Match(node) // as in Filter
			return match && (p.added == nil || p.added.Match(node))
		}
		return matches(after) && (before == nil || !matches(before))
	}))}, nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package interpodaffinity places pods near to or away from other pods: required
// affinity and anti-affinity filter, preferred ones score, and both are
// symmetric: the terms of running pods speak on the incoming pod too. Touch it
// for spec.affinity.podAffinity and podAntiAffinity.
package interpodaffinity

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; the reasons are what users see.
const (
	Name                  = "InterPodAffinity"
	ErrReasonAffinity     = "node(s) didn't match pod affinity rules"
	ErrReasonAntiAffinity = "node(s) didn't match pod anti-affinity rules"
	ErrReasonExisting     = "node(s) didn't satisfy existing pods anti-affinity rules"

	filterKey = "PreFilter" + Name
	scoreKey  = "PreScore" + Name
)

// InterPodAffinity is the plugin.
type InterPodAffinity struct {
	handle     framework.Handle
	namespaces corelisters.NamespaceLister
}

var (
	_ framework.PreFilterPlugin = (*InterPodAffinity)(nil)
	_ framework.PodDeltaPlugin  = (*InterPodAffinity)(nil)
	_ framework.FilterPlugin    = (*InterPodAffinity)(nil)
	_ framework.PreScorePlugin  = (*InterPodAffinity)(nil)
	_ framework.NormalizePlugin = (*InterPodAffinity)(nil)
	_ framework.RequeuePlugin   = (*InterPodAffinity)(nil)
)

// New returns the plugin.
func New(h framework.Handle) (framework.Plugin, error) {
	return &InterPodAffinity{handle: h, namespaces: h.Informers().Core().V1().Namespaces().Lister()}, nil
}

// Name returns the plugin's name.
func (*InterPodAffinity) Name() string { return Name }

// domain is a value of a topology key.
type domain struct{ key, value string }

// counts has the number of matching pods per domain.
type counts map[domain]int

func (c counts) add(node *corev1.Node, key string, by int) {
	value, ok := node.Labels[key]
	if !ok {
		return
	}
	d := domain{key, value}
	if c[d] += by; c[d] == 0 {
		delete(c, d)
	}
}

// filterState is what Filter decides on.
type filterState struct {
	// affinity counts the pods that match all required terms of the incoming pod,
	// antiAffinity those that match any of its anti-affinity terms, existing the
	// running pods whose anti-affinity terms match the incoming one.
	affinity, antiAffinity, existing counts

	affinityTerms, antiAffinityTerms []framework.AffinityTerm
	namespace                        labels.Set // labels of the incoming pod's namespace
}

// Clone copies the counts.
func (s *filterState) Clone() framework.StateData {
	c := *s
	c.affinity, c.antiAffinity, c.existing = maps.Clone(s.affinity), maps.Clone(s.antiAffinity), maps.Clone(s.existing)
	return &c
}

// change counts other, a pod on node, by times.
func (s *filterState) change(pod, other *corev1.Pod, otherAnti []framework.AffinityTerm, node *corev1.Node, by int) {
	for i := range otherAnti {
		if otherAnti[i].Matches(pod, s.namespace) {
			s.existing.add(node, otherAnti[i].TopologyKey, by)
		}
	}
	if matchesAll(s.affinityTerms, other) {
		for i := range s.affinityTerms {
			s.affinity.add(node, s.affinityTerms[i].TopologyKey, by)
		}
	}
	for i := range s.antiAffinityTerms {
		if s.antiAffinityTerms[i].Matches(other, nil) {
			s.antiAffinity.add(node, s.antiAffinityTerms[i].TopologyKey, by)
		}
	}
}

// matchesAll tells whether a pod matches all terms; it matches no terms if there are none.
func matchesAll(terms []framework.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if !terms[i].Matches(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}

// PreFilter counts matching pods per domain. A pod without terms is compared
// with the terms of running pods only.
func (p *InterPodAffinity) PreFilter(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, snapshot *framework.Snapshot) (sets.Set[string], *framework.Status) {
	if pod.ParseError != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", pod.ParseError))
	}
	s := &filterState{affinity: counts{}, antiAffinity: counts{}, existing: counts{}, namespace: p.namespaceLabels(pod.Pod.Namespace)}
	var err error
	if s.affinityTerms, err = p.resolve(pod.RequiredAffinity); err != nil {
		return nil, framework.AsStatus(err)
	}
	if s.antiAffinityTerms, err = p.resolve(pod.RequiredAntiAffinity); err != nil {
		return nil, framework.AsStatus(err)
	}
	nodes := snapshot.WithRequiredAntiAffinity
	own := len(s.affinityTerms)+len(s.antiAffinityTerms) > 0
	if own {
		nodes = snapshot.Nodes
	}
	for _, n := range nodes {
		pods := n.WithRequiredAntiAffinity
		if own {
			pods = n.Pods
		}
		for _, other := range pods {
			s.change(pod.Pod, other.Pod, other.RequiredAntiAffinity, n.Node, 1)
		}
	}
	if !own && len(s.existing) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// resolve turns namespace selectors into names.
func (p *InterPodAffinity) resolve(terms []framework.AffinityTerm) ([]framework.AffinityTerm, error) {
	out := make([]framework.AffinityTerm, len(terms))
	for i, t := range terms {
		out[i] = t
		namespaces, err := p.resolveNamespaces(&t)
		if err != nil {
			return nil, err
		}
		out[i].Namespaces, out[i].NamespaceSelector = namespaces, labels.Nothing()
		if t.NamespaceSelector.Empty() {
			out[i].NamespaceSelector = t.NamespaceSelector // all namespaces
		}
	}
	return out, nil
}

func (p *InterPodAffinity) resolveNamespaces(t *framework.AffinityTerm) (sets.Set[string], error) {
	if t.NamespaceSelector.Empty() {
		return t.Namespaces, nil
	}
	if _, selectable := t.NamespaceSelector.Requirements(); !selectable {
		return t.Namespaces, nil
	}
	list, err := p.namespaces.List(t.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	names := t.Namespaces.Clone()
	for _, n := range list {
		names.Insert(n.Name)
	}
	return names, nil
}

// namespaceLabels returns no labels for a namespace that is not there (yet).
func (p *InterPodAffinity) namespaceLabels(name string) labels.Set {
	ns, err := p.namespaces.Get(name)
	if err != nil {
		return nil
	}
	return ns.Labels
}

// AddPod counts a pod more.
func (*InterPodAffinity) AddPod(_ context.Context, state *framework.CycleState, pod, added *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	if s, ok := framework.ReadState[*filterState](state, filterKey); ok {
		s.change(pod.Pod, added.Pod, added.RequiredAntiAffinity, node.Node, 1)
	}
	return nil
}

// RemovePod counts a pod less.
func (*InterPodAffinity) RemovePod(_ context.Context, state *framework.CycleState, pod, removed *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	if s, ok := framework.ReadState[*filterState](state, filterKey); ok {
		s.change(pod.Pod, removed.Pod, removed.RequiredAntiAffinity, node.Node, -1)
	}
	return nil
}

// Filter checks the required terms of both sides.
func (*InterPodAffinity) Filter(_ context.Context, state *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return nil
	}
	if !s.affine(pod.Pod, node.Node) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, ErrReasonAffinity)
	}
	for i := range s.antiAffinityTerms {
		key := s.antiAffinityTerms[i].TopologyKey
		if value, ok := node.Node.Labels[key]; ok && s.antiAffinity[domain{key, value}] > 0 {
			return framework.NewStatus(framework.Unschedulable, ErrReasonAntiAffinity)
		}
	}
	if len(s.existing) > 0 {
		for key, value := range node.Node.Labels {
			if s.existing[domain{key, value}] > 0 {
				return framework.NewStatus(framework.Unschedulable, ErrReasonExisting)
			}
		}
	}
	return nil
}

// affine tells whether each term has a matching pod in the node's domain. The
// first pod of a group that is affine to itself may go to any labelled node.
func (s *filterState) affine(pod *corev1.Pod, node *corev1.Node) bool {
	found := true
	for i := range s.affinityTerms {
		key := s.affinityTerms[i].TopologyKey
		value, ok := node.Labels[key]
		if !ok {
			return false
		}
		if s.affinity[domain{key, value}] <= 0 {
			found = false
		}
	}
	return found || len(s.affinity) == 0 && matchesAll(s.affinityTerms, pod)
}

// Requeue implements framework.Plugin: a pod that one of the terms selects came, went or changed, or one
// whose own terms kept the pod away went; or a node came or changed its domain.
func (p *InterPodAffinity) Requeue() []framework.Requeue {
	return []framework.Requeue{
		{
			Event: framework.ClusterEvent{Resource: framework.AssignedPod, Action: framework.Add | framework.Delete | framework.UpdateLabels},
			Hint: func(_ context.Context, pod *framework.PodInfo, old, new any) bool {
				return p.concerns(pod, framework.AsPod(old)) || p.concerns(pod, framework.AsPod(new))
			},
		},
		{Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add | framework.UpdateLabels}},
		{Event: framework.ClusterEvent{Resource: framework.Namespace, Action: framework.Add | framework.Update}},
		{Event: framework.ClusterEvent{Resource: framework.PendingPod, Action: framework.UpdateLabels}},
	}
}

func (p *InterPodAffinity) concerns(pod *framework.PodInfo, other *corev1.Pod) bool {
	if other == nil {
		return false
	}
	theirs := p.namespaceLabels(other.Namespace)
	for _, terms := range [][]framework.AffinityTerm{pod.RequiredAffinity, pod.RequiredAntiAffinity} {
		for i := range terms {
			if terms[i].Matches(other, theirs) {
				return true
			}
		}
	}
	if a := other.Spec.Affinity; a == nil || a.PodAntiAffinity == nil {
		return false
	}
	ours := p.namespaceLabels(pod.Pod.Namespace)
	anti := framework.NewPodInfo(other).RequiredAntiAffinity
	for i := range anti {
		if anti[i].Matches(pod.Pod, ours) {
			return true
		}
	}
	return false
}

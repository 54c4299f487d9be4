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
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
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
	handle     fwk.Handle
	namespaces corelisters.NamespaceLister
	args       *configv1.InterPodAffinityArgs
	selected   *lru.Cache // selections by their keys
	carried    *carried
}

var (
	_ fwk.PreFilterPlugin     = (*InterPodAffinity)(nil)
	_ fwk.PreFilterExtensions = (*InterPodAffinity)(nil)
	_ fwk.FilterPlugin        = (*InterPodAffinity)(nil)
	_ fwk.PreScorePlugin      = (*InterPodAffinity)(nil)
	_ fwk.ScorePlugin         = (*InterPodAffinity)(nil)
	_ fwk.EnqueueExtensions   = (*InterPodAffinity)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.InterPodAffinityArgs](obj)
	if err != nil {
		return nil, err
	}
	return &InterPodAffinity{
		handle: h, namespaces: h.SharedInformerFactory().Core().V1().Namespaces().Lister(), args: args,
		selected: lru.New(maxSelections), carried: newCarried(),
	}, nil
}

// Name returns the plugin's name.
func (*InterPodAffinity) Name() string { return Name }

// filterState is what Filter decides on.
type filterState struct {
	// affinity counts the pods that match all required terms of the incoming pod,
	// antiAffinity those that match any of its anti-affinity terms, existing the
	// running pods whose anti-affinity terms match the incoming one.
	affinity, antiAffinity, existing counts
	keys                             sets.Set[string] // of existing, and maybe more

	affinityTerms, antiAffinityTerms []fwk.AffinityTerm
	namespace                        labels.Set // labels of the incoming pod's namespace
}

// Clone copies the counts.
func (s *filterState) Clone() fwk.StateData {
	c := *s
	c.keys = s.keys.Clone()
	c.affinity, c.antiAffinity, c.existing = maps.Clone(s.affinity), maps.Clone(s.antiAffinity), maps.Clone(s.existing)
	return &c
}

// change counts other, a pod on node, by times.
func (s *filterState) change(pod, other *corev1.Pod, otherAnti []fwk.AffinityTerm, node *corev1.Node, by int) {
	for i := range otherAnti {
		if otherAnti[i].Matches(pod, s.namespace) {
			s.existing.addAt(node, otherAnti[i].TopologyKey, by)
			s.keys.Insert(otherAnti[i].TopologyKey)
		}
	}
	if matchesAll(s.affinityTerms, other, nil) {
		for i := range s.affinityTerms {
			s.affinity.addAt(node, s.affinityTerms[i].TopologyKey, by)
		}
	}
	for i := range s.antiAffinityTerms {
		if s.antiAffinityTerms[i].Matches(other, nil) {
			s.antiAffinity.addAt(node, s.antiAffinityTerms[i].TopologyKey, by)
		}
	}
}

// matchesAll tells whether a pod, in a namespace of some labels, matches all terms; it matches no terms if there are none.
func matchesAll(terms []fwk.AffinityTerm, pod *corev1.Pod, namespace labels.Set) bool {
	for i := range terms {
		if !terms[i].Matches(pod, namespace) {
			return false
		}
	}
	return len(terms) > 0
}

// matchesAny tells whether a pod, in a namespace of some labels, matches one of the terms.
func matchesAny(terms []fwk.AffinityTerm, pod *corev1.Pod, namespace labels.Set) bool {
	for i := range terms {
		if terms[i].Matches(pod, namespace) {
			return true
		}
	}
	return false
}

// PreFilter counts matching pods per domain. A pod without terms is compared
// with the terms of running pods only.
func (p *InterPodAffinity) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	info := framework.InfoOf(state, pod)
	if info.ParseError != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", info.ParseError))
	}
	s := &filterState{affinity: counts{}, antiAffinity: counts{}, existing: counts{}, keys: sets.New[string](), namespace: p.namespaceLabels(pod.Namespace)}
	var err error
	if s.affinityTerms, err = p.resolve(info.RequiredAffinity); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if s.antiAffinityTerms, err = p.resolve(info.RequiredAntiAffinity); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(s.affinityTerms) > 0 {
		s.affinity = s.affinity.with(p.count(s.affinityTerms, nodes))
	}
	for i := range s.antiAffinityTerms {
		s.antiAffinity = s.antiAffinity.with(p.count(s.antiAffinityTerms[i:i+1], nodes))
	}
	carried, err := p.carriedTerms()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("listing nodes that have pods with terms: %w", err))
	}
	for _, t := range carried {
		if t.kind == requiredAntiAffinity && t.term.Matches(pod, s.namespace) {
			s.existing = s.existing.with(t.pods)
			s.keys.Insert(t.term.TopologyKey)
		}
	}
	if len(s.affinityTerms)+len(s.antiAffinityTerms)+len(s.existing) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// resolve turns namespace selectors into names.
func (p *InterPodAffinity) resolve(terms []fwk.AffinityTerm) ([]fwk.AffinityTerm, error) {
	out := make([]fwk.AffinityTerm, len(terms))
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

func (p *InterPodAffinity) resolveNamespaces(t *fwk.AffinityTerm) (sets.Set[string], error) {
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
func (*InterPodAffinity) AddPod(_ context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	if s, ok := framework.ReadState[*filterState](state, filterKey); ok {
		s.change(pod, added.GetPod(), added.GetRequiredAntiAffinityTerms(), node.Node(), 1)
	}
	return nil
}

// RemovePod counts a pod less.
func (*InterPodAffinity) RemovePod(_ context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	if s, ok := framework.ReadState[*filterState](state, filterKey); ok {
		s.change(pod, removed.GetPod(), removed.GetRequiredAntiAffinityTerms(), node.Node(), -1)
	}
	return nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *InterPodAffinity) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// Filter checks the required terms of both sides.
func (*InterPodAffinity) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s, ok := framework.ReadState[*filterState](state, filterKey)
	if !ok {
		return nil
	}
	if !s.affine(pod, node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonAffinity)
	}
	for i := range s.antiAffinityTerms {
		key := s.antiAffinityTerms[i].TopologyKey
		if value, ok := node.Node().Labels[key]; ok && s.antiAffinity[domain{key, value}] > 0 {
			return fwk.NewStatus(fwk.Unschedulable, ErrReasonAntiAffinity)
		}
	}
	for key := range s.keys {
		if value, ok := node.Node().Labels[key]; ok && s.existing[domain{key, value}] > 0 {
			return fwk.NewStatus(fwk.Unschedulable, ErrReasonExisting)
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
	return found || len(s.affinity) == 0 && matchesAll(s.affinityTerms, pod, nil)
}

// EventsToRegister implements fwk.EnqueueExtensions: a pod that the terms select came, went or changed, or one
// whose own terms kept the pod away went; or a node came or changed its domain.
func (p *InterPodAffinity) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.AssignedPod, fwk.Add|fwk.Delete|fwk.UpdatePodLabel, framework.Hint(p.podHelps)),
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeLabel, framework.Hint(nodeHelps)),
		framework.Event(framework.Namespace, fwk.Add|fwk.Update, nil),
		framework.Event(fwk.TargetPod, fwk.UpdatePodLabel, nil),
	}, nil
}

// podHelps tells whether a pod that came, went or got other labels may let the waiting one pass. That the last one near which it must be
// went may make it the first of its kind.
func (p *InterPodAffinity) podHelps(pod *corev1.Pod, old, new any) bool {
	before, after := framework.AsPod(old), framework.AsPod(new)
	info := framework.NewPodInfo(pod)
	near := func(other *corev1.Pod) bool {
		return other != nil && matchesAll(info.RequiredAffinity, other, p.namespaceLabels(other.Namespace))
	}
	away := func(other *corev1.Pod) bool {
		return other != nil && matchesAny(info.RequiredAntiAffinity, other, p.namespaceLabels(other.Namespace))
	}
	return near(before) != near(after) || away(before) && !away(after) || before != nil && after == nil && p.keptAway(pod, before)
}

// keptAway tells whether the terms of another pod are against a pod.
func (p *InterPodAffinity) keptAway(pod, other *corev1.Pod) bool {
	if a := other.Spec.Affinity; a == nil || a.PodAntiAffinity == nil {
		return false
	}
	return matchesAny(framework.NewPodInfo(other).RequiredAntiAffinity, pod, p.namespaceLabels(pod.Namespace))
}

// nodeHelps tells whether a node that came, or is in another domain than before, may let a pod pass. Of a pod without terms
// nothing is known but that those of others are against it.
func nodeHelps(pod *corev1.Pod, old, new any) bool {
	before, after := framework.AsNode(old), framework.AsNode(new)
	info := framework.NewPodInfo(pod)
	if after == nil || len(info.RequiredAffinity)+len(info.RequiredAntiAffinity) == 0 {
		return true
	}
	if before == nil {
		return len(info.RequiredAntiAffinity) > 0 || slices.ContainsFunc(info.RequiredAffinity, func(t fwk.AffinityTerm) bool {
			_, ok := after.Labels[t.TopologyKey]
			return ok
		})
	}
	// A node that leaves a domain helps none that must be there, and one that enters a domain none that must not.
	enters := func(t fwk.AffinityTerm) bool {
		domain, ok := after.Labels[t.TopologyKey]
		was, wasIn := before.Labels[t.TopologyKey]
		return ok && (!wasIn || domain != was)
	}
	leaves := func(t fwk.AffinityTerm) bool {
		was, ok := before.Labels[t.TopologyKey]
		domain, isIn := after.Labels[t.TopologyKey]
		return ok && (!isIn || domain != was)
	}
	return slices.ContainsFunc(info.RequiredAffinity, enters) || slices.ContainsFunc(info.RequiredAntiAffinity, leaves)
}

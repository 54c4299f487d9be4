// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Profile is an ordered set of plugins, sorted by extension point, and the
// runtime that calls them. It is immutable and safe for concurrent use.
type Profile struct {
	preEnqueue []PreEnqueuePlugin
	preFilter  []PreFilterPlugin
	filter     []FilterPlugin
	postFilter []PostFilterPlugin
	preScore   []PreScorePlugin
	score      []weighted
	reserve    []ReservePlugin
	preBind    []PreBindPlugin
	delta      []PodDeltaPlugin
	requeues   map[string][]Requeue
}

type weighted struct {
	ScorePlugin
	weight int64
}

// NewProfile builds the plugins of a list. A plugin listed twice, one whose name
// is not the listed one and one that implements no extension point are errors.
func NewProfile(h Handle, entries []Entry) (*Profile, error) {
	p := &Profile{requeues: map[string][]Requeue{}}
	seen := sets.New[string]()
	for _, e := range entries {
		if seen.Has(e.Name) {
			return nil, fmt.Errorf("plugin %q is listed twice", e.Name)
		}
		seen.Insert(e.Name)
		plugin, err := e.New(h)
		if err != nil {
			return nil, fmt.Errorf("creating plugin %q: %w", e.Name, err)
		}
		if plugin.Name() != e.Name {
			return nil, fmt.Errorf("plugin %q calls itself %q", e.Name, plugin.Name())
		}
		if !p.add(plugin, max(e.Weight, 1)) {
			return nil, fmt.Errorf("plugin %q implements no extension point", e.Name)
		}
	}
	return p, nil
}

func (p *Profile) add(plugin Plugin, weight int64) (used bool) {
	if x, ok := plugin.(PreEnqueuePlugin); ok {
		p.preEnqueue, used = append(p.preEnqueue, x), true
	}
	if x, ok := plugin.(PreFilterPlugin); ok {
		p.preFilter, used = append(p.preFilter, x), true
	}
	if x, ok := plugin.(FilterPlugin); ok {
		p.filter, used = append(p.filter, x), true
	}
	if x, ok := plugin.(PostFilterPlugin); ok {
		p.postFilter, used = append(p.postFilter, x), true
	}
	if x, ok := plugin.(PreScorePlugin); ok {
		p.preScore, used = append(p.preScore, x), true
	}
	if x, ok := plugin.(ScorePlugin); ok {
		p.score, used = append(p.score, weighted{x, weight}), true
	}
	if x, ok := plugin.(ReservePlugin); ok {
		p.reserve, used = append(p.reserve, x), true
	}
	if x, ok := plugin.(PreBindPlugin); ok {
		p.preBind, used = append(p.preBind, x), true
	}
	if x, ok := plugin.(PodDeltaPlugin); ok {
		p.delta = append(p.delta, x)
	}
	if x, ok := plugin.(RequeuePlugin); ok {
		p.requeues[plugin.Name()] = x.Requeue()
	}
	return used
}

// Requeues returns the events each plugin declares, by plugin name. Plugins
// that declare nothing are absent.
func (p *Profile) Requeues() map[string][]Requeue { return p.requeues }

// RunPreEnqueue returns the first refusal.
func (p *Profile) RunPreEnqueue(ctx context.Context, pod *PodInfo) *Status {
	for _, plugin := range p.preEnqueue {
		if s := plugin.PreEnqueue(ctx, pod); !s.IsSuccess() {
			return s.WithPlugin(plugin.Name())
		}
	}
	return nil
}

// Narrowing is the result of PreFilter plugins that know which nodes are possible.
type Narrowing struct {
	// Nodes is nil if all nodes are possible.
	Nodes sets.Set[string]
	// By names the plugins that narrowed.
	By sets.Set[string]
}

// RunPreFilter runs all PreFilter plugins until one rejects the pod.
func (p *Profile) RunPreFilter(ctx context.Context, state *CycleState, pod *PodInfo, snapshot *Snapshot) (Narrowing, *Status) {
	n := Narrowing{By: sets.New[string]()}
	for _, plugin := range p.preFilter {
		nodes, s := plugin.PreFilter(ctx, state, pod, snapshot)
		if s.IsSkip() {
			state.skipFilter.Insert(plugin.Name())
			continue
		}
		if !s.IsSuccess() {
			return n, s.WithPlugin(plugin.Name())
		}
		if nodes == nil {
			continue
		}
		n.By.Insert(plugin.Name())
		if n.Nodes == nil {
			n.Nodes = nodes
		} else {
			n.Nodes = n.Nodes.Intersection(nodes)
		}
		if n.Nodes.Len() == 0 {
			by := sets.List(n.By)
			msg := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", by)
			if len(by) == 1 {
				msg = fmt.Sprintf("node(s) didn't satisfy plugin %v", by[0])
			}
			return n, NewStatus(UnschedulableAndUnresolvable, msg).WithPlugin(plugin.Name())
		}
	}
	return n, nil
}

// RunFilter returns the first rejection of a node.
func (p *Profile) RunFilter(ctx context.Context, state *CycleState, pod *PodInfo, node *NodeInfo) *Status {
	for _, plugin := range p.filter {
		name := plugin.Name()
		if len(state.skipFilter) > 0 && state.skipFilter.Has(name) {
			continue
		}
		if s := plugin.Filter(ctx, state, pod, node); !s.IsSuccess() {
			return s.WithPlugin(name)
		}
	}
	return nil
}

// RunFilterWithNominated filters a node as if the nominated pods of at least the
// pod's priority ran on it, and then without them: the former keeps the room
// they wait for, the latter keeps an affinity from resting on pods that may
// never arrive.
func (p *Profile) RunFilterWithNominated(ctx context.Context, state *CycleState, pod *PodInfo, node *NodeInfo, nominated []*PodInfo) *Status {
	var with []*PodInfo
	for _, n := range nominated {
		if n.Priority() >= pod.Priority() && n.Pod.UID != pod.Pod.UID {
			with = append(with, n)
		}
	}
	if len(with) > 0 {
		tried, trial := node.Clone(), state.Clone()
		for _, n := range with {
			tried.AddPod(n)
			if s := p.RunAddPod(ctx, trial, pod, n, tried); !s.IsSuccess() {
				return s
			}
		}
		if s := p.RunFilter(ctx, trial, pod, tried); !s.IsSuccess() {
			return s
		}
	}
	return p.RunFilter(ctx, state, pod, node)
}

// RunAddPod tells the plugins that added is on node now.
func (p *Profile) RunAddPod(ctx context.Context, state *CycleState, pod, added *PodInfo, node *NodeInfo) *Status {
	for _, plugin := range p.delta {
		if state.skipFilter.Has(plugin.Name()) {
			continue
		}
		if s := plugin.AddPod(ctx, state, pod, added, node); !s.IsSuccess() {
			return s.WithPlugin(plugin.Name())
		}
	}
	return nil
}

// RunRemovePod tells the plugins that removed is no longer on node.
func (p *Profile) RunRemovePod(ctx context.Context, state *CycleState, pod, removed *PodInfo, node *NodeInfo) *Status {
	for _, plugin := range p.delta {
		if state.skipFilter.Has(plugin.Name()) {
			continue
		}
		if s := plugin.RemovePod(ctx, state, pod, removed, node); !s.IsSuccess() {
			return s.WithPlugin(plugin.Name())
		}
	}
	return nil
}

// RunPostFilter asks the plugins for a way out and returns the first success.
// The messages of all that failed are joined.
func (p *Profile) RunPostFilter(ctx context.Context, state *CycleState, pod *PodInfo, statuses *NodeStatuses) (*Nomination, *Status) {
	var reasons []string
	var nomination *Nomination
	for _, plugin := range p.postFilter {
		n, s := plugin.PostFilter(ctx, state, pod, statuses)
		if s.IsSuccess() || s.Code() == Error {
			return n, s.WithPlugin(plugin.Name())
		}
		if n != nil && nomination == nil {
			nomination = n
		}
		reasons = append(reasons, s.Reasons()...)
	}
	return nomination, NewStatus(Unschedulable, strings.Join(reasons, ", "))
}

// RunPreScore prepares scoring.
func (p *Profile) RunPreScore(ctx context.Context, state *CycleState, pod *PodInfo, nodes []*NodeInfo) *Status {
	for _, plugin := range p.preScore {
		s := plugin.PreScore(ctx, state, pod, nodes)
		if s.IsSkip() {
			state.skipScore.Insert(plugin.Name())
		} else if !s.IsSuccess() {
			return s.WithPlugin(plugin.Name())
		}
	}
	return nil
}

// RunScore returns the weighted sum of all plugins' normalised scores, in the
// order of nodes.
func (p *Profile) RunScore(ctx context.Context, state *CycleState, pod *PodInfo, nodes []*NodeInfo) ([]NodeScore, *Status) {
	var plugins []weighted
	for _, w := range p.score {
		if !state.skipScore.Has(w.Name()) {
			plugins = append(plugins, w)
		}
	}
	scores := make([][]NodeScore, len(plugins))
	for i := range scores {
		scores[i] = make([]NodeScore, len(nodes))
	}
	failed := make([]*Status, len(nodes))
	ForEach(len(nodes), func(n int) bool {
		for i, w := range plugins {
			v, s := w.Score(ctx, state, pod, nodes[n])
			if !s.IsSuccess() {
				failed[n] = s.WithPlugin(w.Name())
				return false
			}
			scores[i][n] = NodeScore{Name: nodes[n].Name(), Score: v}
		}
		return true
	})
	for _, s := range failed {
		if s != nil {
			return nil, AsStatus(fmt.Errorf("running Score plugin %q: %w", s.Plugin(), s.Err()))
		}
	}
	total := make([]NodeScore, len(nodes))
	for n := range nodes {
		total[n].Name = nodes[n].Name()
	}
	for i, w := range plugins {
		if normalize, ok := w.ScorePlugin.(NormalizePlugin); ok {
			if s := normalize.NormalizeScore(ctx, state, pod, scores[i]); !s.IsSuccess() {
				return nil, AsStatus(fmt.Errorf("normalizing scores of plugin %q: %w", w.Name(), s.Err()))
			}
		}
		for n, v := range scores[i] {
			if v.Score < MinNodeScore || v.Score > MaxNodeScore {
				return nil, AsStatus(fmt.Errorf("plugin %q returns an invalid score %d, it should in the range of [%d, %d] after normalizing", w.Name(), v.Score, MinNodeScore, MaxNodeScore))
			}
			total[n].Score += v.Score * w.weight
		}
	}
	return total, nil
}

// RunReserve reserves in order; upon a failure everything is given back.
func (p *Profile) RunReserve(ctx context.Context, state *CycleState, pod *PodInfo, node string) *Status {
	for _, plugin := range p.reserve {
		if s := plugin.Reserve(ctx, state, pod, node); !s.IsSuccess() {
			p.RunUnreserve(ctx, state, pod, node)
			return s.WithPlugin(plugin.Name())
		}
	}
	return nil
}

// RunUnreserve gives back in reverse order.
func (p *Profile) RunUnreserve(ctx context.Context, state *CycleState, pod *PodInfo, node string) {
	for _, plugin := range slices.Backward(p.reserve) {
		plugin.Unreserve(ctx, state, pod, node)
	}
}

// RunPreBind does what must be done before the pod is bound.
func (p *Profile) RunPreBind(ctx context.Context, state *CycleState, pod *PodInfo, node string) *Status {
	for _, plugin := range p.preBind {
		s := plugin.PreBind(ctx, state, pod, node)
		if s.IsSuccess() {
			continue
		}
		if s.Code() == Error {
			return AsStatus(fmt.Errorf("running PreBind plugin %q: %w", plugin.Name(), s.Err())).WithPlugin(plugin.Name())
		}
		return s.WithPlugin(plugin.Name())
	}
	return nil
}

// ErrNoNodes is the failure of every pod while the cluster has no node.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// NormalizeReverse scales raw scores to [0, MaxNodeScore] such that the highest
// raw score is worth nothing: for plugins that count what is bad.
func NormalizeReverse(scores []NodeScore) {
	Normalize(scores)
	for i := range scores {
		scores[i].Score = MaxNodeScore - scores[i].Score
	}
}

// Normalize scales raw, non-negative scores such that the highest becomes MaxNodeScore.
func Normalize(scores []NodeScore) {
	var top int64
	for i := range scores {
		top = max(top, scores[i].Score)
	}
	if top == 0 {
		return
	}
	for i := range scores {
		scores[i].Score = scores[i].Score * MaxNodeScore / top
	}
}

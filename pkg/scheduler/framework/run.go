// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxPermitWait bounds what a Permit plugin may ask for.
const maxPermitWait = 15 * time.Minute

// RunPreEnqueue returns the first refusal.
func (p *Profile) RunPreEnqueue(ctx context.Context, pod *corev1.Pod) (status *fwk.Status) {
	defer p.timers.preEnqueue.Since(time.Now(), &status)
	sampled := p.Metrics != nil && Sample()
	for _, x := range p.preEnqueue {
		start := x.calls.began(sampled)
		s := x.plugin.PreEnqueue(ctx, pod)
		x.calls.ended(main, start, s)
		if !s.IsSuccess() {
			return s.WithPlugin(x.name)
		}
	}
	return nil
}

// RunPreFilter runs all PreFilter plugins, also after one that rejects the pod, as
// preemption may follow. The result is nil if all nodes are possible; narrowed names
// the plugins that know better.
func (p *Profile) RunPreFilter(ctx context.Context, state *CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (result *fwk.PreFilterResult, narrowed sets.Set[string], status *fwk.Status) {
	defer p.timers.preFilter.Since(time.Now(), &status)
	narrowed = sets.New[string]()
	skip := sets.New[string]()
	var rejected *fwk.Status
	for _, x := range p.preFilter {
		start := x.calls.began(state.sampled)
		r, s := x.plugin.PreFilter(ctx, state, pod, nodes)
		x.calls.ended(main, start, s)
		if s.IsSkip() {
			skip.Insert(x.name)
			continue
		}
		x.calls.ran()
		if s.Code() == fwk.Unschedulable {
			rejected = s.WithPlugin(x.name)
			continue
		}
		if !s.IsSuccess() {
			return nil, narrowed, s.WithPlugin(x.name)
		}
		if r.AllNodes() {
			continue
		}
		narrowed.Insert(x.name)
		result = result.Merge(r)
		if len(result.NodeNames) == 0 {
			by := sets.List(narrowed)
			msg := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", by)
			if len(by) == 1 {
				msg = fmt.Sprintf("node(s) didn't satisfy plugin %v", by[0])
			}
			return result, narrowed, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, msg).WithPlugin(x.name)
		}
	}
	state.SetSkipFilterPlugins(skip)
	state.filters, state.locals = make([]named[fwk.FilterPlugin], 0, len(p.filter)), 0
	for _, x := range p.filter {
		if !skip.Has(x.name) {
			state.filters = append(state.filters, x)
			if x.local {
				state.locals++
			}
		}
	}
	return result, narrowed, rejected
}

// RunFilterPlugins returns the first rejection of a node.
func (p *Profile) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	filters, skip := p.filter, sets.Set[string](nil)
	if c, ok := state.(*CycleState); ok && c.filters != nil {
		filters = c.filters
	} else {
		skip = state.GetSkipFilterPlugins()
	}
	return runFilters(ctx, state, pod, node, filters, skip)
}

func runFilters(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, filters []named[fwk.FilterPlugin], skip sets.Set[string]) *fwk.Status {
	sampled := state.ShouldRecordPluginMetrics()
	for i := range filters {
		x := &filters[i]
		if len(skip) > 0 && skip.Has(x.name) {
			continue
		}
		x.calls.ran()
		start := x.calls.began(sampled)
		s := x.plugin.Filter(ctx, state, pod, node)
		x.calls.ended(main, start, s)
		if !s.IsSuccess() {
			return s.WithPlugin(x.name)
		}
	}
	return nil
}

// RunFilterPluginsWithNominatedPods filters a node as if the nominated pods of at
// least the pod's priority ran on it, and then without them: the former keeps the
// room they wait for, the latter keeps an affinity from resting on pods that may
// never arrive.
func (p *Profile) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	var with []fwk.PodInfo
	for _, n := range p.Nominator.NominatedPodsForNode(node.Node().Name) {
		if priority(n.GetPod()) >= priority(pod) && n.GetPod().UID != pod.UID {
			with = append(with, n)
		}
	}
	if len(with) > 0 {
		tried, trial := node.Snapshot(), state.Clone()
		for _, n := range with {
			tried.AddPodInfo(n)
			if s := p.RunPreFilterExtensionAddPod(ctx, trial, pod, n, tried); !s.IsSuccess() {
				return s
			}
		}
		if s := p.RunFilterPlugins(ctx, trial, pod, tried); !s.IsSuccess() {
			return s
		}
	}
	return p.RunFilterPlugins(ctx, state, pod, node)
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// RunPreFilterExtensionAddPod tells the plugins that added is on node now.
func (p *Profile) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.extend(state, "AddPod", second, func(x fwk.PreFilterExtensions) *fwk.Status { return x.AddPod(ctx, state, pod, added, node) })
}

// RunPreFilterExtensionRemovePod tells the plugins that removed is no longer on node.
func (p *Profile) RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.extend(state, "RemovePod", third, func(x fwk.PreFilterExtensions) *fwk.Status { return x.RemovePod(ctx, state, pod, removed, node) })
}

func (p *Profile) extend(state fwk.CycleState, what string, m method, f func(fwk.PreFilterExtensions) *fwk.Status) *fwk.Status {
	skip, sampled := state.GetSkipFilterPlugins(), state.ShouldRecordPluginMetrics()
	for _, x := range p.preFilter {
		extensions := x.plugin.PreFilterExtensions()
		if extensions == nil || skip.Has(x.name) {
			continue
		}
		start := x.calls.began(sampled)
		s := f(extensions)
		x.calls.ended(m, start, s)
		if !s.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running %s on PreFilter plugin %q: %w", what, x.name, s.AsError())).WithPlugin(x.name)
		}
	}
	return nil
}

// RunPostFilter asks the plugins for a way out and returns the first success. One
// that knows that there is none ends the search; the reasons of all others that
// found none are joined. Without any plugin the pod waits for no node.
func (p *Profile) RunPostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (result *fwk.PostFilterResult, status *fwk.Status) {
	defer p.timers.postFilter.Since(time.Now(), &status)
	if len(p.postFilter) == 0 {
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}, fwk.NewStatus(fwk.Unschedulable)
	}
	var reasons []string
	for _, x := range p.postFilter {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		r, s := x.plugin.PostFilter(ctx, state, pod, statuses)
		x.calls.ended(main, start, s)
		switch {
		case s.IsSuccess():
			return r, s
		case s.Code() == fwk.UnschedulableAndUnresolvable:
			return r, s.WithPlugin(x.name)
		case !s.IsRejected():
			return nil, fwk.AsStatus(s.AsError()).WithPlugin(x.name)
		case r != nil && r.Mode() != fwk.ModeNoop:
			result = r
		}
		reasons = append(reasons, s.Reasons()...)
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...)
}

// RunPreScorePlugins prepares scoring.
func (p *Profile) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (status *fwk.Status) {
	defer p.timers.preScore.Since(time.Now(), &status)
	skip := sets.New[string]()
	for _, x := range p.preScore {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		s := x.plugin.PreScore(ctx, state, pod, nodes)
		x.calls.ended(main, start, s)
		if s.IsSkip() {
			skip.Insert(x.name)
			continue
		}
		x.calls.ran()
		if !s.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", x.name, s.AsError())).WithPlugin(x.name)
		}
	}
	state.SetSkipScorePlugins(skip)
	return nil
}

// Score returns the weighted sum of all plugins' normalised scores, in the order
// of nodes, each added to what is in total already. If something is known of nodes,
// these are those that were kept, in order.
func (p *Profile) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, known *Findings, nodes []fwk.NodeInfo, total []int64) *fwk.Status {
	_, _, status := p.scores(ctx, state, pod, known, nodes, total, false)
	return status
}

// RunScorePlugins returns the scores in detail.
func (p *Profile) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	total := make([]int64, len(nodes))
	raw, scores, status := p.scores(ctx, state, pod, nil, nodes, total, true)
	if !status.IsSuccess() {
		return nil, status
	}
	out := make([]fwk.NodePluginScores, len(nodes))
	for n := range nodes {
		out[n] = fwk.NodePluginScores{Name: nodes[n].Node().Name, TotalScore: total[n]}
		for i := range scores {
			out[n].RawScores = append(out[n].RawScores, fwk.PluginScore{Name: scores[i].name, Score: raw[i][n].Score})
			out[n].Scores = append(out[n].Scores, fwk.PluginScore{Name: scores[i].name, Score: scores[i].scores[n].Score * scores[i].weight})
		}
	}
	return out, nil
}

type pluginScores struct {
	named[fwk.ScorePlugin]
	scores fwk.NodeScoreList
}

func (p *Profile) scores(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, known *Findings, nodes []fwk.NodeInfo, total []int64, keepRaw bool) (raw []fwk.NodeScoreList, all []pluginScores, status *fwk.Status) {
	defer p.timers.score.Since(time.Now(), &status)
	skip, sampled := state.GetSkipScorePlugins(), state.ShouldRecordPluginMetrics()
	for _, x := range p.score {
		if !skip.Has(x.name) {
			all = append(all, pluginScores{x, nil})
		}
	}
	// One piece of memory for all plugins.
	room := known.list(len(nodes) * len(all))
	for i := range all {
		all[i].scores = room[i*len(nodes) : (i+1)*len(nodes)]
	}
	var mu sync.Mutex
	var failed *fwk.Status // guarded by mu
	p.ForEach(len(nodes), "Score", func(n int) bool {
		name, scores := known.score(n, nodes[n])
		for i := range all {
			v, s := all[i].score(ctx, state, pod, nodes[n], scores, sampled)
			if !s.IsSuccess() {
				mu.Lock()
				defer mu.Unlock()
				failed = fwk.AsStatus(fmt.Errorf("running Score plugin %q: %w", all[i].name, s.AsError())).WithPlugin(all[i].name)
				return false
			}
			all[i].scores[n] = fwk.NodeScore{Name: name, Score: v}
		}
		return true
	})
	if failed != nil {
		return nil, nil, failed
	}
	for _, x := range all {
		if keepRaw {
			raw = append(raw, slices.Clone(x.scores))
		}
		if extensions := x.plugin.ScoreExtensions(); extensions != nil {
			start := x.calls.began(sampled)
			s := extensions.NormalizeScore(ctx, state, pod, x.scores)
			x.calls.ended(second, start, s)
			if !s.IsSuccess() {
				return nil, nil, fwk.AsStatus(fmt.Errorf("running NormalizeScore plugin %q: %w", x.name, s.AsError())).WithPlugin(x.name)
			}
		}
		for n, v := range x.scores {
			if v.Score < fwk.MinScore || v.Score > fwk.MaxScore {
				return nil, nil, fwk.AsStatus(fmt.Errorf("plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing", x.name, v.Score, fwk.MinScore, fwk.MaxScore))
			}
			total[n] += v.Score * x.weight
		}
	}
	return raw, all, nil
}

// RunReservePluginsReserve reserves in order; the caller gives everything back
// upon a failure.
func (p *Profile) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (status *fwk.Status) {
	defer p.timers.reserve.Since(time.Now(), &status)
	for _, x := range p.reserve {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		s := x.plugin.Reserve(ctx, state, pod, node)
		x.calls.ended(main, start, s)
		if !s.IsSuccess() {
			return failure("Reserve", x.name, s)
		}
	}
	return nil
}

// RunReservePluginsUnreserve gives back in reverse order.
func (p *Profile) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	var status *fwk.Status
	defer p.timers.unreserve.Since(time.Now(), &status)
	for _, x := range slices.Backward(p.reserve) {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		x.plugin.Unreserve(ctx, state, pod, node)
		x.calls.ended(second, start, nil)
	}
}

// failure keeps a rejection as it is and tells of any other failure where it was.
func failure(point, plugin string, s *fwk.Status) *fwk.Status {
	if s.IsRejected() {
		return s.WithPlugin(plugin)
	}
	return fwk.AsStatus(fmt.Errorf("running %s plugin %q: %w", point, plugin, cause(s))).WithPlugin(plugin)
}

// cause is never nil: a code that has no place at a point is a failure too.
func cause(s *fwk.Status) error {
	if err := s.AsError(); err != nil {
		return err
	}
	return fmt.Errorf("unexpected status %v: %s", s.Code(), s.Message())
}

// RunPermit asks the Permit plugins. If one of them lets the pod wait, the pod is
// among the waiting ones when this returns, and WaitOnPermit must follow.
func (p *Profile) RunPermit(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (status *fwk.Status) {
	defer p.timers.permit.Since(time.Now(), &status)
	timeouts := map[string]time.Duration{}
	for _, x := range p.permit {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		s, d := x.plugin.Permit(ctx, state, pod, node)
		x.calls.ended(main, start, s)
		switch {
		case s.IsSuccess():
		case s.IsWait():
			timeouts[x.name] = min(d, maxPermitWait)
		default:
			return failure("Permit", x.name, s)
		}
	}
	if len(timeouts) == 0 {
		return nil
	}
	p.Waiting.add(newWaitingPod(pod, timeouts))
	return fwk.NewStatus(fwk.Wait, fmt.Sprintf("one or more plugins asked to wait and no plugin rejected pod %q", pod.Name))
}

// WaitOnPermit waits for the verdict on a pod that waits.
func (p *Profile) WaitOnPermit(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	w := p.Waiting.get(pod.UID)
	if w == nil {
		return nil
	}
	defer p.Waiting.remove(pod.UID)
	stop := context.AfterFunc(ctx, func() { w.Preempt("", "the scheduler ends") })
	defer stop()
	start := time.Now()
	s := <-w.verdict
	p.Metrics.PermitWaited(s.Code().String(), start)
	if s.Code() == fwk.Error {
		return fwk.AsStatus(fmt.Errorf("waiting on permit for pod: %w", s.AsError())).WithPlugin(s.Plugin())
	}
	return s
}

// RunPreBindPreFlight tells whether any plugin has something to do before the
// pod is bound; those that have nothing are skipped by RunPreBind.
func (p *Profile) RunPreBindPreFlight(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (busy bool, status *fwk.Status) {
	defer p.timers.preFlight.Since(time.Now(), &status)
	skip, parallel := sets.New[string](), sets.New[string]()
	for _, x := range p.preBind {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		r, s := x.plugin.PreBindPreFlight(ctx, state, pod, node)
		x.calls.ended(second, start, s)
		if s.IsSkip() {
			skip.Insert(x.name)
		} else if !s.IsSuccess() {
			return false, fwk.AsStatus(fmt.Errorf("running PreBindPreFlight %q: %w", x.name, cause(s))).WithPlugin(x.name)
		}
		if r != nil && r.AllowParallel {
			parallel.Insert(x.name)
		}
	}
	state.SetSkipPreBindPlugins(skip)
	state.SetParallelPreBindPlugins(parallel)
	return skip.Len() < len(p.preBind), nil
}

// RunPreBind does what must be done before the pod is bound. Neighbours that
// allow it run at once, and end when one of them fails.
func (p *Profile) RunPreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (status *fwk.Status) {
	defer p.timers.preBind.Since(time.Now(), &status)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	skip, parallel := state.GetSkipPreBindPlugins(), state.GetParallelPreBindPlugins()
	for i := 0; i < len(p.preBind); {
		end := i + 1
		for parallel.Has(p.preBind[i].name) && end < len(p.preBind) && parallel.Has(p.preBind[end].name) {
			end++
		}
		group := p.preBind[i:end]
		i = end
		failed := make(chan *fwk.Status, 1) // has room for the first one
		var running sync.WaitGroup
		for _, x := range group {
			if skip.Has(x.name) {
				continue
			}
			running.Go(func() {
				s := preBind(ctx, x, state, pod, node)
				if s.IsSuccess() {
					return
				}
				select {
				case failed <- s:
					cancel(errors.New("some other PreBind operation failed"))
				default:
				}
			})
		}
		running.Wait()
		select {
		case s := <-failed:
			return s
		default:
		}
	}
	return nil
}

// preBind tells of a plugin that was stopped why it was.
func preBind(ctx context.Context, x named[fwk.PreBindPlugin], state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	start := x.calls.began(state.ShouldRecordPluginMetrics())
	s := x.plugin.PreBind(ctx, state, pod, node)
	x.calls.ended(main, start, s)
	if s.IsSuccess() {
		return nil
	}
	if why := context.Cause(ctx); why != nil && errors.Is(s.AsError(), context.Canceled) {
		s = fwk.AsStatus(why)
	}
	return failure("PreBind", x.name, s)
}

// RunBind binds the pod by the first plugin that does not skip it.
func (p *Profile) RunBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (status *fwk.Status) {
	defer p.timers.bind.Since(time.Now(), &status)
	for _, x := range p.bind {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		s := x.plugin.Bind(ctx, state, pod, node)
		x.calls.ended(main, start, s)
		switch {
		case s.IsSkip():
		case s.IsSuccess():
			return nil
		default:
			return failure("Bind", x.name, s)
		}
	}
	return fwk.AsStatus(errors.New("all Bind plugins skipped the pod"))
}

// RunPostBind tells the plugins that the pod is bound.
func (p *Profile) RunPostBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	var status *fwk.Status
	defer p.timers.postBind.Since(time.Now(), &status)
	for _, x := range p.postBind {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		x.plugin.PostBind(ctx, state, pod, node)
		x.calls.ended(main, start, nil)
	}
}

// SignPod implements fwk.Handle: pods of the same signature fit and score the
// same. It is nil if a plugin of the profile cannot tell.
func (p *Profile) SignPod(ctx context.Context, pod *corev1.Pod) fwk.PodSignature {
	if !p.signs {
		return nil
	}
	fragments := map[string]any{}
	for _, x := range p.sign {
		list, s := x.plugin.SignPod(ctx, pod)
		if !s.IsSuccess() {
			return nil
		}
		for _, f := range list {
			fragments[f.Key] = f.Value
		}
	}
	signature, err := json.Marshal(fragments)
	if err != nil {
		return nil
	}
	return signature
}

// NormalizeReverse scales raw scores to [0, fwk.MaxScore] such that the highest
// raw score is worth nothing: for plugins that count what is bad.
func NormalizeReverse(scores fwk.NodeScoreList) {
	Normalize(scores)
	for i := range scores {
		scores[i].Score = fwk.MaxScore - scores[i].Score
	}
}

// Normalize scales raw, non-negative scores such that the highest becomes fwk.MaxScore.
func Normalize(scores fwk.NodeScoreList) {
	var top int64
	for i := range scores {
		top = max(top, scores[i].Score)
	}
	if top == 0 {
		return
	}
	for i := range scores {
		scores[i].Score = scores[i].Score * fwk.MaxScore / top
	}
}

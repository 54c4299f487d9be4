// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

const (
	// minFeasibleNodes is the number of nodes that are always looked at.
	minFeasibleNodes = 100
	// minFeasiblePercentage bounds the adaptive share from below.
	minFeasiblePercentage = 5
)

// attempt is one try to place a pod.
type attempt struct {
	pod     *queue.Pod
	profile *framework.Profile
	state   *framework.CycleState
	start   time.Time
	// known is what is known of the snapshot's nodes for pods like this one; nil if nothing may be remembered.
	known *framework.Findings
	// permitted tells that no plugin asks any more to wait for another event.
	permitted bool
}

// scratch is memory that one cycle leaves to the next.
type scratch struct {
	verdicts []verdict // on nodes, in the order in which they are looked at; zero between cycles
	total    []int64
}

// verdict is what the filters say of a node.
type verdict struct {
	seen   bool
	status *fwk.Status
}

// schedule tries a pod, and if it is of a group all of that which wait. Everything
// up to the assumption is done before the next pod is tried; the binding is not.
func (s *Scheduler) schedule(ctx context.Context, pod *queue.Pod) {
	if name, ok := framework.GroupOf(pod.Pod); ok && s.groups != nil {
		s.scheduleGroup(ctx, pod, name)
		return
	}
	if s.skips(pod) {
		s.queue.Done(pod)
		return
	}
	a := s.newAttempt(pod, s.profiles[pod.Pod.Spec.SchedulerName])
	s.look()
	node, err := s.place(ctx, a)
	s.metrics.Placed(s.cfg.Clock.Since(a.start))
	if err != nil {
		s.failed(ctx, a, err)
		return
	}
	if assumed := pod.WithNode(node); s.occupy(ctx, a, assumed) {
		s.proceed(ctx, a, assumed)
	}
}

// look brings the snapshot up to date.
func (s *Scheduler) look() *framework.Snapshot {
	snapshot := s.cache.Snapshot()
	if s.groups != nil {
		snapshot.SetGroups(s.groups)
	}
	s.snapshot.Store(snapshot)
	return snapshot
}

// skips tells whether a pod needs no node any more.
func (s *Scheduler) skips(pod *queue.Pod) bool {
	profile := s.profiles[pod.Pod.Spec.SchedulerName]
	if profile != nil && pod.Pod.DeletionTimestamp != nil {
		profile.Recorder.Eventf(pod.Pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "skip schedule deleting pod: %v/%v", pod.Pod.Namespace, pod.Pod.Name)
		return true
	}
	return profile == nil || s.cache.Has(pod.Pod.UID)
}

func (s *Scheduler) newAttempt(pod *queue.Pod, profile *framework.Profile) *attempt {
	a := &attempt{pod: pod, profile: profile, state: framework.NewCycleState(pod.PodInfo), start: s.cfg.Clock.Now()}
	a.state.SetRecordPluginMetrics(s.metrics != nil && framework.Sample())
	return a
}

// occupy assumes that a pod is on its node and takes what it needs there. If that
// fails the pod is put back.
func (s *Scheduler) occupy(ctx context.Context, a *attempt, assumed *framework.PodInfo) bool {
	if err := s.cache.Assume(assumed); err != nil {
		s.failed(ctx, a, err)
		return false
	}
	s.groups.Assume(assumed.Pod)
	if status := a.profile.RunReservePluginsReserve(ctx, a.state, assumed.Pod, assumed.Pod.Spec.NodeName); !status.IsSuccess() {
		s.undo(ctx, a, assumed, status)
		return false
	}
	return true
}

// proceed asks for leave to bind an assumed pod, and begins to.
func (s *Scheduler) proceed(ctx context.Context, a *attempt, assumed *framework.PodInfo) {
	status := a.profile.RunPermit(ctx, a.state, assumed.Pod, assumed.Pod.Spec.NodeName)
	if !status.IsSuccess() && !status.IsWait() {
		s.undo(ctx, a, assumed, status)
		return
	}
	s.nominated.Remove(a.pod.Pod.UID)
	s.commit(ctx, a, assumed, status.IsWait())
}

// rejection turns the status of a chosen node into the error of the attempt and
// the plugins whose events may help; none after an internal failure, or after a pod
// was permitted.
func rejection(status *fwk.Status, node string, permitted bool) (sets.Set[string], error) {
	switch {
	case !status.IsRejected():
		return nil, status.AsError()
	case permitted:
		return nil, lateRejection{status.Message()}
	}
	statuses := framework.NewNodeStatuses(nil)
	statuses.Set(node, status)
	by := sets.New(status.Plugin())
	return by, &framework.FitError{NumAllNodes: 1, Statuses: statuses, RejectedBy: by}
}

// lateRejection is why a plugin rejects a pod that it has permitted before: only time can help.
type lateRejection struct{ message string }

func (e lateRejection) Error() string { return e.message }

// result is the label of an attempt that did not place its pod.
func result(err error) string {
	if unschedulable(err) {
		return "unschedulable"
	}
	return "error"
}

// place returns the best node, or a *framework.FitError if there is none.
func (s *Scheduler) place(ctx context.Context, a *attempt) (string, error) {
	snapshot := s.snapshot.Load()
	if len(snapshot.Nodes()) == 0 {
		return "", framework.ErrNoNodes
	}
	feasible, err := s.feasible(ctx, a, snapshot)
	if err != nil {
		return "", err
	}
	if len(feasible) == 1 {
		return feasible[0].Node().Name, nil
	}
	pod := a.pod.Pod
	if status := a.profile.RunPreScorePlugins(ctx, a.state, pod, feasible); !status.IsSuccess() {
		return "", status.AsError()
	}
	s.scratch.total = slices.Grow(s.scratch.total[:0], len(feasible))[:len(feasible)]
	total := s.scratch.total
	clear(total)
	if status := a.profile.Score(ctx, a.state, pod, a.known, feasible, total); !status.IsSuccess() {
		return "", status.AsError()
	}
	s.prioritize(ctx, a.profile.Extenders(), pod, feasible, total)
	return feasible[s.best(total)].Node().Name, nil
}

// feasible returns nodes that pass all filters, at least one.
func (s *Scheduler) feasible(ctx context.Context, a *attempt, snapshot *framework.Snapshot) ([]fwk.NodeInfo, error) {
	pod := a.pod.Pod
	fit := &framework.FitError{NumAllNodes: len(snapshot.Nodes()), RejectedBy: sets.New[string]()}
	narrowing, by, status := a.profile.RunPreFilter(ctx, a.state, pod, snapshot.Nodes())
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", status.Plugin(), status.AsError())
		}
		fit.PreFilterMsg = status.Message()
		fit.Statuses = framework.NewNodeStatuses(status)
		fit.RejectedBy.Insert(status.Plugin()).Insert(by.UnsortedList()...)
		return nil, fit
	}

	// The node that preemption made room on is most likely the one.
	if nominated := s.nominated.NodeOf(pod.UID); nominated != "" {
		node := snapshot.Node(nominated)
		if node != nil && (narrowing.AllNodes() || narrowing.NodeNames.Has(nominated)) &&
			a.profile.RunFilterPluginsWithNominatedPods(ctx, a.state, pod, node).IsSuccess() {
			if left, err := extend(ctx, a.profile.Extenders(), pod, []fwk.NodeInfo{node}, framework.NewNodeStatuses(nil)); err == nil && len(left) == 1 {
				return left, nil
			}
		}
	}

	candidates, absent := snapshot.Nodes(), (*fwk.Status)(nil)
	if !narrowing.AllNodes() {
		candidates = nil
		for _, name := range sets.List(narrowing.NodeNames) {
			if n := snapshot.Node(name); n != nil {
				candidates = append(candidates, n)
			}
		}
		absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by)))
		fit.RejectedBy.Insert(by.UnsortedList()...)
	} else if len(a.profile.Extenders()) == 0 { // these may leave nodes out, and places are of all
		a.known = s.memory.Recall(a.profile, a.pod.PodInfo)
		a.known.Begin(snapshot)
	}
	feasible, statuses, err := s.filter(ctx, a, candidates)
	found := len(feasible)
	if err == nil {
		feasible, err = extend(ctx, a.profile.Extenders(), pod, feasible, statuses)
	}
	if err != nil {
		return nil, err
	}
	if len(feasible) < found {
		fit.RejectedBy.Insert(byExtender) // also of nodes that it leaves out without a word
	}
	if len(feasible) > 0 {
		return feasible, nil
	}
	statuses.SetAbsent(absent)
	for _, n := range candidates {
		if status := statuses.Get(n.Node().Name); status != nil {
			fit.RejectedBy.Insert(status.Plugin())
		}
	}
	fit.Statuses = statuses
	return nil, fit
}

// filter looks at nodes in turn, starting where the last search stopped, until
// enough of them are feasible. The reasons are returned only if none is, or if an
// extender may refuse the rest.
func (s *Scheduler) filter(ctx context.Context, a *attempt, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, *framework.NodeStatuses, error) {
	var failed *fwk.Status
	defer a.profile.Filtered(time.Now(), &failed)
	total := len(nodes)
	enough := s.enough(a.profile, total)
	if len(s.scratch.verdicts) < total {
		s.scratch.verdicts = make([]verdict, total)
	}
	verdicts := s.scratch.verdicts
	var found, looked atomic.Int64
	start, alone := s.nextNode, s.nominated.None()
	at := func(i int) int { return (start + i) % total }
	end := a.profile.ForEach(total, "Filter", func(i int) bool {
		k, v := at(i), &verdicts[i]
		v.seen = true
		if a.known != nil && (alone || len(s.nominated.On(nodes[k].Node().Name)) == 0) {
			v.status = a.profile.FilterAt(ctx, a.state, a.pod.Pod, a.known, k)
		} else {
			v.status = a.profile.RunFilterPluginsWithNominatedPods(ctx, a.state, a.pod.Pod, nodes[k])
		}
		looked.Add(1)
		if v.status.IsSuccess() {
			return found.Add(1) < int64(enough)
		}
		return v.status.IsRejected()
	})
	verdicts = verdicts[:end]
	defer clear(verdicts)
	feasible := make([]fwk.NodeInfo, 0, min(int(found.Load()), enough))
	statuses := framework.NewNodeStatuses(nil)
	why := found.Load() == 0 || len(a.profile.Extenders()) > 0
	for i := range verdicts {
		k, status := at(i), verdicts[i].status
		switch {
		case !verdicts[i].seen:
		case status.IsSuccess():
			if len(feasible) < enough {
				feasible = append(feasible, nodes[k])
				a.known.Keep(k)
			}
		case status.IsRejected():
			if why {
				statuses.Set(nodes[k].Node().Name, status)
			}
		default:
			failed = status
			return nil, nil, fmt.Errorf("running %q filter plugin: %w", status.Plugin(), status.AsError())
		}
	}
	if total >= minFeasibleNodes {
		s.nextNode = at(int(looked.Load())) // pods that allow few nodes leave it alone
	}
	return feasible, statuses, nil
}

// enough is the number of feasible nodes after which a search may stop: all of
// them if an extender is to choose.
func (s *Scheduler) enough(p *framework.Profile, nodes int) int {
	percentage := *s.cfg.Configuration.PercentageOfNodesToScore
	if p.PercentageOfNodesToScore != nil {
		percentage = *p.PercentageOfNodesToScore
	}
	return feasibleNodesToFind(int(percentage), nodes)
}

// feasibleNodesToFind is the number of feasible nodes after which a search may stop.
func feasibleNodesToFind(percentage, nodes int) int {
	if nodes < minFeasibleNodes {
		return nodes
	}
	if percentage == 0 {
		percentage = max(50-nodes/125, minFeasiblePercentage)
	}
	return min(max(nodes*percentage/100, minFeasibleNodes), nodes)
}

// best picks one of the highest scores, each with the same probability.
func (s *Scheduler) best(scores []int64) int {
	best, ties := 0, 1
	for i := 1; i < len(scores); i++ {
		switch {
		case scores[i] > scores[best]:
			best, ties = i, 1
		case scores[i] == scores[best]:
			ties++
			if s.rng.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// failed looks for a way out by preemption, tells the user why the pod did not
// fit, and puts it back.
func (s *Scheduler) failed(ctx context.Context, a *attempt, err error) {
	nomination := noNomination()
	rejectedBy := sets.Set[string]{}
	var fit *framework.FitError
	switch {
	case errors.As(err, &fit):
		nomination, rejectedBy = nil, fit.RejectedBy
		result, status := a.profile.RunPostFilter(ctx, a.state, a.pod.Pod, fit.Statuses)
		if status.Code() == fwk.Error {
			klog.FromContext(ctx).Error(status.AsError(), "Looking for pods to preempt failed", "pod", klog.KObj(a.pod.Pod))
		}
		fit.PostFilterMsg = status.Message()
		if result != nil {
			nomination = result.NominatingInfo
		}
	case errors.Is(err, framework.ErrNoNodes):
		rejectedBy.Insert(noNodes)
	}
	s.attempted(a, result(err))
	s.requeue(ctx, a, nomination, rejectedBy, err)
}

// noNomination ends a pod's wait for room on a node: after another failure than that it fits nowhere, that node must not be the first
// one that is tried again.
func noNomination() *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
}

// noNodes stands for a plugin that declares no events, so that any event retries
// the pods that were tried in an empty cluster.
const noNodes = "no nodes"

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

const (
	// minFeasibleNodes is the number of nodes that are always looked at.
	minFeasibleNodes = 100
	// minFeasiblePercentage bounds the adaptive share from below.
	minFeasiblePercentage = 5
)

// scheduleOne tries one pod. Everything up to the assumption is done before the
// next pod is tried; the binding is not.
func (s *Scheduler) scheduleOne(ctx context.Context, pod *queue.Pod) {
	start := s.cfg.Clock.Now()
	if pod.Pod.DeletionTimestamp != nil || s.cache.Has(pod.Pod.UID) {
		s.queue.Done(pod)
		return
	}
	state := framework.NewCycleState()
	s.snapshot.Store(s.cache.Snapshot())

	node, err := s.place(ctx, state, pod.PodInfo)
	if err != nil {
		s.failed(ctx, state, pod, err, start)
		return
	}
	assumed := pod.WithNode(node)
	if err := s.cache.Assume(assumed); err != nil {
		s.failed(ctx, state, pod, err, start)
		return
	}
	if status := s.profile.RunReserve(ctx, state, assumed, node); !status.IsSuccess() {
		s.cache.Forget(pod.Pod.UID)
		rejectedBy, err := rejection(status, node)
		s.metrics.attempt(result(rejectedBy), s.cfg.SchedulerName, s.cfg.Clock.Since(start))
		s.requeue(ctx, pod, nil, rejectedBy, err)
		return
	}
	s.nominated.Remove(pod.Pod.UID)
	s.bindings.Go(func() { s.bind(ctx, state, pod, assumed, start) })
}

// rejection turns the status of a chosen node into the error of the attempt and
// the plugins whose events may help; none after an internal failure.
func rejection(status *framework.Status, node string) (sets.Set[string], error) {
	if !status.IsRejected() {
		return nil, status.Err()
	}
	statuses := framework.NewNodeStatuses(nil)
	statuses.Set(node, status)
	by := sets.New(status.Plugin())
	return by, &framework.FitError{NumAllNodes: 1, Statuses: statuses, RejectedBy: by}
}

// result is the label of an attempt that did not place its pod.
func result(rejectedBy sets.Set[string]) string {
	if rejectedBy.Len() > 0 {
		return "unschedulable"
	}
	return "error"
}

// place returns the best node, or a *framework.FitError if there is none.
func (s *Scheduler) place(ctx context.Context, state *framework.CycleState, pod *framework.PodInfo) (string, error) {
	snapshot := s.snapshot.Load()
	if len(snapshot.Nodes) == 0 {
		return "", framework.ErrNoNodes
	}
	feasible, err := s.feasible(ctx, state, pod, snapshot)
	if err != nil {
		return "", err
	}
	if len(feasible) == 1 {
		return feasible[0].Name(), nil
	}
	if status := s.profile.RunPreScore(ctx, state, pod, feasible); !status.IsSuccess() {
		return "", status.Err()
	}
	scores, status := s.profile.RunScore(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return "", status.Err()
	}
	return s.best(scores), nil
}

// feasible returns nodes that pass all filters, at least one.
func (s *Scheduler) feasible(ctx context.Context, state *framework.CycleState, pod *framework.PodInfo, snapshot *framework.Snapshot) ([]*framework.NodeInfo, error) {
	fit := &framework.FitError{NumAllNodes: len(snapshot.Nodes), RejectedBy: sets.New[string]()}
	narrowing, status := s.profile.RunPreFilter(ctx, state, pod, snapshot)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", status.Plugin(), status.Err())
		}
		fit.PreFilterMsg = status.Message()
		fit.Statuses = framework.NewNodeStatuses(status)
		fit.RejectedBy.Insert(status.Plugin()).Insert(narrowing.By.UnsortedList()...)
		return nil, fit
	}

	// The node that preemption made room on is most likely the one.
	if nominated := s.nominated.NodeOf(pod.Pod.UID); nominated != "" {
		node := snapshot.Get(nominated)
		if node != nil && (narrowing.Nodes == nil || narrowing.Nodes.Has(nominated)) &&
			s.profile.RunFilterWithNominated(ctx, state, pod, node, s.nominated.On(nominated)).IsSuccess() {
			return []*framework.NodeInfo{node}, nil
		}
	}

	candidates, absent := snapshot.Nodes, (*framework.Status)(nil)
	if narrowing.Nodes != nil {
		candidates = candidates[:0:0]
		for _, name := range sets.List(narrowing.Nodes) {
			if n := snapshot.Get(name); n != nil {
				candidates = append(candidates, n)
			}
		}
		absent = framework.NewStatus(framework.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing.By)))
		fit.RejectedBy.Insert(narrowing.By.UnsortedList()...)
	}
	feasible, statuses, err := s.filter(ctx, state, pod, candidates)
	if err != nil {
		return nil, err
	}
	if len(feasible) > 0 {
		return feasible, nil
	}
	statuses.SetAbsent(absent)
	for _, n := range candidates {
		fit.RejectedBy.Insert(statuses.Get(n.Name()).Plugin())
	}
	fit.Statuses = statuses
	return nil, fit
}

// filter looks at nodes in turn, starting where the last search stopped, until
// enough of them are feasible.
func (s *Scheduler) filter(ctx context.Context, state *framework.CycleState, pod *framework.PodInfo, nodes []*framework.NodeInfo) ([]*framework.NodeInfo, *framework.NodeStatuses, error) {
	total := len(nodes)
	enough := feasibleNodesToFind(s.cfg.PercentageOfNodesToScore, total)
	results := make([]*framework.Status, total) // by position, valid where seen
	seen := make([]bool, total)
	var found, looked atomic.Int64
	start := s.nextNode
	at := func(i int) int { return (start + i) % total }
	framework.ForEach(total, func(i int) bool {
		k := at(i)
		results[k] = s.profile.RunFilterWithNominated(ctx, state, pod, nodes[k], s.nominated.On(nodes[k].Name()))
		seen[k] = true
		looked.Add(1)
		switch results[k].Code() {
		case framework.Success:
			return found.Add(1) < int64(enough)
		case framework.Error:
			return false
		}
		return true
	})
	feasible := make([]*framework.NodeInfo, 0, min(int(found.Load()), enough))
	statuses := framework.NewNodeStatuses(nil)
	for i := range total {
		k := at(i)
		switch status := results[k]; {
		case !seen[k]:
		case status.IsSuccess():
			if len(feasible) < enough {
				feasible = append(feasible, nodes[k])
			}
		case status.IsRejected():
			statuses.Set(nodes[k].Name(), status)
		default:
			return nil, nil, fmt.Errorf("running %q filter plugin: %w", status.Plugin(), status.Err())
		}
	}
	if total >= minFeasibleNodes {
		s.nextNode = at(int(looked.Load())) // pods that allow few nodes leave it alone
	}
	return feasible, statuses, nil
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

// best picks one of the nodes with the highest score, each with the same probability.
func (s *Scheduler) best(scores []framework.NodeScore) string {
	best, ties := scores[0], 1
	for _, n := range scores[1:] {
		switch {
		case n.Score > best.Score:
			best, ties = n, 1
		case n.Score == best.Score:
			ties++
			if s.rng.IntN(ties) == 0 {
				best = n
			}
		}
	}
	return best.Name
}

// failed looks for a way out by preemption, tells the user why the pod did not
// fit, and puts it back.
func (s *Scheduler) failed(ctx context.Context, state *framework.CycleState, pod *queue.Pod, err error, start time.Time) {
	var nomination *framework.Nomination
	rejectedBy := sets.Set[string]{}
	var fit *framework.FitError
	switch {
	case errors.As(err, &fit):
		rejectedBy = fit.RejectedBy
		var status *framework.Status
		nomination, status = s.profile.RunPostFilter(ctx, state, pod.PodInfo, fit.Statuses)
		if status.Code() == framework.Error {
			klog.FromContext(ctx).Error(status.Err(), "Looking for pods to preempt failed", "pod", klog.KObj(pod.Pod))
		} else {
			fit.PostFilterMsg = status.Message()
		}
	case errors.Is(err, framework.ErrNoNodes):
		rejectedBy.Insert(noNodes)
	}
	s.metrics.attempt(result(rejectedBy), s.cfg.SchedulerName, s.cfg.Clock.Since(start))
	s.requeue(ctx, pod, nomination, rejectedBy, err)
}

// noNodes stands for a plugin that declares no events, so that any event retries
// the pods that were tried in an empty cluster.
const noNodes = "no nodes"

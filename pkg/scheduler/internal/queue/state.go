// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// What metrics call the places of pods that no queue of theirs has: gated ones are unschedulable without ever having been tried,
// incomplete ones wait for the object of their group. Upstream has a place for pods that come while their group is tried, too.
const (
	gated      = "gated"
	incomplete = "incomplete"
	pending    = "pending"
)

// ofGroup orders the places that pods of a group may have at the same time: the first one is the group's.
var ofGroup = []string{gated, active.label(), backoff.label(), unschedulable.label()}

// State counts the pods by place, who rejected them, and what is remembered for
// those in flight, in the terms of metrics.
func (q *Queue) State() metrics.State {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	out := metrics.State{
		Pending:  map[string]int{incomplete: 0, pending: 0},
		Entities: map[metrics.Entity]int{},
		Rejected: map[metrics.Rejection]int{},
		Events:   map[string]int{podInFlight: q.flying.Len()},
	}
	for _, label := range ofGroup {
		out.Pending[label] = 0
		out.Entities[metrics.Entity{Queue: label, Type: podEntity}] = 0
		out.Entities[metrics.Entity{Queue: label, Type: groupEntity}] = 0
	}
	groups := map[*group]map[string]bool{}
	for _, p := range q.all {
		label := p.place.label()
		if label == "" {
			continue
		}
		switch {
		case p.Gated && p.group != nil && q.cfg.Incomplete != nil && q.cfg.Incomplete(p.Pod):
			label = incomplete
		case p.Gated:
			label = gated
		}
		out.Pending[label]++
		switch {
		case p.group == nil:
			out.Entities[metrics.Entity{Queue: label, Type: podEntity}]++
		case groups[p.group] == nil:
			groups[p.group] = map[string]bool{label: true}
		default:
			groups[p.group][label] = true
		}
		for plugin := range p.RejectedBy {
			out.Rejected[metrics.Rejection{Plugin: plugin, Profile: p.Pod.Spec.SchedulerName}]++
		}
	}
	for _, places := range groups {
		for _, label := range ofGroup {
			if places[label] {
				out.Entities[metrics.Entity{Queue: label, Type: groupEntity}]++
				break
			}
		}
	}
	byEvent := map[fwk.ClusterEvent]int{} // to make each label once
	for i := range q.events {
		byEvent[q.events[i].event]++
	}
	for event, n := range byEvent {
		out.Events[event.Label()] += n
	}
	return out
}

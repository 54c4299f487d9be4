// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// What a queue has, in the words of metrics: a pod of a group counts as its group.
const (
	podEntity   = "pod"
	groupEntity = "podgroup"
)

// group is what pods that are tried together share: the back-off. Whether there is room for all of them no event of one of them can
// tell, so that they are tried again when it has ended, event or not.
type group struct {
	pods     int            // that the queue knows
	in       map[string]int // pods by queue, in the words of metrics
	failures int            // failed attempts
	errors   int            // that failed internally in a row
	rest     time.Time      // not tried before, unless an event came or somebody activates it
}

// enters notes that a pod is put into a queue. It returns what the queue has got by that, if anything. A group of nil is that of a pod
// which is tried alone.
func (g *group) enters(queue string) (entity string) {
	if g == nil {
		return podEntity
	}
	if g.in[queue]++; g.in[queue] == 1 {
		return groupEntity
	}
	return ""
}

// leaves notes that a pod is taken out of a queue, if it was in one.
func (g *group) leaves(queue string) {
	if g != nil && queue != "" {
		g.in[queue]--
	}
}

// enlist takes a pod among all, and with it its group.
func (q *Queue) enlist(p *Pod) {
	q.all[p.Pod.UID] = p
	name, ok := framework.GroupOf(p.Pod)
	if !ok || q.cfg.Group == nil {
		return
	}
	if q.groups[name] == nil {
		q.groups[name] = &group{in: map[string]int{}}
	}
	p.group = q.groups[name]
	p.group.pods++
}

// strike takes a pod from among all, and its group if it was the last one.
func (q *Queue) strike(p *Pod) {
	delete(q.all, p.Pod.UID)
	if p.group == nil {
		return
	}
	if p.group.pods--; p.group.pods == 0 {
		name, _ := framework.GroupOf(p.Pod)
		delete(q.groups, name)
	}
}

// backoffEnd is when the back-off of a pod ends that has failed for the n-th time: with that of its group, if that was tried in vain.
func (q *Queue) backoffEnd(p *Pod, n int) time.Time {
	if q.rests(p) {
		return p.group.rest
	}
	return p.Timestamp.Add(q.delay(n, 1))
}

// rests tells whether the group of a pod backs off.
func (q *Queue) rests(p *Pod) bool {
	return p.group != nil && q.cfg.Clock.Now().Before(p.group.rest)
}

// endRest has the group of a pod, if it has one, be tried again with it.
func (q *Queue) endRest(p *Pod) {
	if p.group != nil {
		p.group.rest = time.Time{}
	}
}

// GroupFailed says, before its pods are put back by Fail, that the group of a pod in flight was tried in vain: it was rejected, or the
// try failed. All of it backs off, also what came into the queue meanwhile and what will come.
func (q *Queue) GroupFailed(p *Pod, wasRejected bool) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	g := p.group
	if g == nil {
		return
	}
	n := &g.errors
	if wasRejected {
		g.errors, n = 0, &g.failures
	}
	*n++
	others := q.group(p)
	g.rest = q.cfg.Clock.Now().Add(q.delay(*n, 1+len(others)))
	for _, other := range others {
		if other.place == active {
			other.backoffEnd = g.rest
			q.put(other, resting, attemptFailed)
		}
	}
}

// GroupPlaced says that the group of a pod in flight was placed, if only a part of it: what is left need not back off.
func (q *Queue) GroupPlaced(p *Pod) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	if g := p.group; g != nil {
		g.failures, g.errors, g.rest = 0, 0, time.Time{}
	}
}

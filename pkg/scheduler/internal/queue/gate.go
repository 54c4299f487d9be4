// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// activate makes p active unless a PreEnqueue plugin holds it, or another of its group, back, or the group backs off.
func (q *Queue) activate(ctx context.Context, p *Pod, event string) {
	held := p.holds()
	if q.cfg.PreEnqueue != nil {
		if s := q.cfg.PreEnqueue(ctx, p.Pod); !s.IsSuccess() {
			q.hold(p, false, sets.New(s.Plugin()), event)
			if held {
				return // and so are the others
			}
			for _, other := range q.group(p) {
				if other.place == active {
					q.hold(other, true, p.RejectedBy, event)
				}
			}
			return
		}
	}
	others := q.group(p)
	if i := slices.IndexFunc(others, (*Pod).holds); i >= 0 {
		q.hold(p, true, others[i].RejectedBy, event)
		return
	}
	if p.Gated {
		// The time behind the gate does not count for the order.
		p.Gated, p.inCompany, p.Timestamp = false, false, q.cfg.Clock.Now()
	}
	if q.rests(p) {
		p.backoffEnd = p.group.rest
		q.put(p, resting, event)
	} else {
		q.put(p, active, event)
	}
	if held {
		q.letGo(ctx, others, event)
	}
}

// hold keeps p back because of a plugin that holds it, or another of its group.
func (q *Queue) hold(p *Pod, inCompany bool, by sets.Set[string], event string) {
	p.Gated, p.inCompany, p.Flushed, p.RejectedBy = true, inCompany, false, by
	q.put(p, unschedulable, event)
}

// letGo makes those active that were held back for the sake of one of their group that is held back no more.
func (q *Queue) letGo(ctx context.Context, group []*Pod, event string) {
	if slices.ContainsFunc(group, (*Pod).holds) {
		return // another one is
	}
	for _, p := range group {
		if p.inCompany {
			q.activate(ctx, p, event)
		}
	}
}

// group lists the other pods that are tried together with p.
func (q *Queue) group(p *Pod) (out []*Pod) {
	if q.cfg.Group == nil {
		return nil
	}
	for _, uid := range q.cfg.Group(p.Pod) {
		if other := q.all[uid]; other != nil && other != p {
			out = append(out, other)
		}
	}
	return out
}

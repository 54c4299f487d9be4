// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

type happened struct {
	event    fwk.ClusterEvent
	old, new any
}

// Move retries the unschedulable pods that an event may help.
func (q *Queue) Move(ctx context.Context, event fwk.ClusterEvent, old, new any) {
	q.move(ctx, nil, event, old, new)
}

// Free retries the unschedulable pods that the room may help which a pod has given up. It is no help to the pod itself: one that a
// plugin rejects after it was placed would be tried without end. Nor is it to the others of its group, with which it is tried; they
// come back when that has backed off.
func (q *Queue) Free(ctx context.Context, pod *corev1.Pod) {
	q.move(ctx, pod, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pod, nil)
}

func (q *Queue) move(ctx context.Context, from *corev1.Pod, event fwk.ClusterEvent, old, new any) {
	q.cond.L.Lock()
	defer q.cond.L.Unlock()
	e := happened{event, old, new}
	if q.flying.Len() > 0 {
		q.events = append(q.events, e)
	}
	own := func(*Pod) bool { return false }
	if from != nil {
		name, _ := framework.GroupOf(from)
		group := q.groups[name]
		own = func(p *Pod) bool { return p.Pod.UID == from.UID || group != nil && p.group == group }
	}
	label := "" // made when it is needed
	for _, r := range q.waiting {
		if !q.concerns(r.like, r.by, e, func(string, *fwk.ClusterEventWithHint) bool { return true }) {
			continue
		}
		for _, p := range r.pods {
			if !own(p) && q.helps(ctx, p, e) {
				if label == "" {
					label = event.Label()
				}
				q.retry(ctx, p, label)
			}
		}
	}
}

// helps tells whether an event may let p pass one of the plugins that rejected it.
func (q *Queue) helps(ctx context.Context, p *Pod, e happened) bool {
	switch e.event.Resource {
	case fwk.WildCard, fwk.TargetPod: // of one pod only, and the former is for no plugin to judge
		if e.new.(*corev1.Pod).UID != p.Pod.UID {
			return false
		}
		if e.event.Resource == fwk.WildCard {
			return true
		}
	}
	return q.concerns(p.Pod, p.RejectedBy, e, func(plugin string, declared *fwk.ClusterEventWithHint) bool {
		return q.hint(ctx, plugin, declared, p, e)
	})
}

// concerns tells whether an event is of a kind that one of the plugins which rejected a pod, or pods like it, has declared, and ask says yes
// to what it has declared. A plugin that has declared nothing is concerned by all.
func (q *Queue) concerns(like *corev1.Pod, by sets.Set[string], e happened, ask func(plugin string, declared *fwk.ClusterEventWithHint) bool) bool {
	all := q.cfg.Events(like)
	for name := range by {
		declared, ok := all[name]
		if !ok {
			return true
		}
		for i := range declared {
			if framework.Matches(declared[i].Event, e.event) && ask(name, &declared[i]) {
				return true
			}
		}
	}
	return false
}

// hint asks a plugin; one that fails cannot keep a pod from being tried.
func (q *Queue) hint(ctx context.Context, plugin string, declared *fwk.ClusterEventWithHint, p *Pod, e happened) bool {
	if declared.QueueingHintFn == nil {
		return true
	}
	logger := klog.FromContext(ctx)
	start, timed := time.Time{}, q.cfg.Metrics != nil && rand.IntN(hintSampleRate) == 0
	if timed {
		start = time.Now()
	}
	hint, err := declared.QueueingHintFn(logger, p.Pod, e.old, e.new)
	if timed {
		result := hint.String()
		if err != nil {
			result = "Error"
		}
		q.cfg.Metrics.Hinted(plugin, e.event.Label(), result, time.Since(start))
	}
	if err != nil {
		logger.Error(err, "A queueing hint failed; the pod is tried again", "pod", klog.KObj(p.Pod), "event", e.event.Label())
		return true
	}
	return hint == fwk.Queue
}

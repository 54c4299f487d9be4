// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	try := func(p *Pod) {
		if !own(p) && q.helps(ctx, p, e) {
			if label == "" {
				label = event.Label()
			}
			q.retry(ctx, p, label)
		}
	}
	if uid, ok := e.of(); ok {
		if p := q.all[uid]; p != nil && p.waits() {
			try(p)
		}
		return
	}
	for _, r := range q.waiting {
		if !q.heed(r, e) {
			continue
		}
		for _, p := range r.pods {
			try(p)
		}
	}
}

// of is the only pod that an event is about to plugins, if it is about one.
func (e happened) of() (uid types.UID, ok bool) {
	if r := e.event.Resource; r != fwk.WildCard && r != fwk.TargetPod {
		return "", false
	}
	return e.new.(*corev1.Pod).UID, true
}

// helps tells whether an event may let p pass one of the plugins that rejected it.
func (q *Queue) helps(ctx context.Context, p *Pod, e happened) bool {
	if uid, ok := e.of(); ok && uid != p.Pod.UID {
		return false
	}
	if e.event.Resource == fwk.WildCard { // which is for no plugin to judge
		return true
	}
	all := q.cfg.Events(p.Pod)
	for name := range p.RejectedBy {
		declared, ok := all[name]
		if !ok {
			return true
		}
		for i := range declared {
			if framework.Matches(declared[i].Event, e.event) && q.hint(ctx, name, &declared[i], p, e) {
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

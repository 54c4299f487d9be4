// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// limits of a rolling update, in nodes.
type limits struct {
	surge, unavailable, desired int
}

// limitsOf resolves the percentages of the DaemonSet's strategy against the number of nodes that should run a pod.
func limitsOf(ds *appsv1.DaemonSet, desired int) (limits, error) {
	l := limits{unavailable: 1, desired: desired}
	if r := ds.Spec.UpdateStrategy.RollingUpdate; r != nil {
		var err error
		if r.MaxUnavailable != nil {
			if l.unavailable, err = intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, desired, true); err != nil {
				return l, fmt.Errorf("invalid value for MaxUnavailable: %w", err)
			}
		}
		if r.MaxSurge != nil {
			if l.surge, err = intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, desired, true); err != nil {
				return l, fmt.Errorf("invalid value for MaxSurge: %w", err)
			}
		}
	}
	if desired > 0 && l.unavailable == 0 && l.surge == 0 {
		// Validation rules this out; without a limit above 0 nothing would ever move.
		l.unavailable = 1
	}
	return l, nil
}

// surges reports whether new pods come beside the old ones rather than in their place.
func surges(ds *appsv1.DaemonSet) bool {
	if ds.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return false
	}
	l, err := limitsOf(ds, 1)
	return err == nil && l.surge > 0
}

// pair is the pod of the present template and that of another one on a node.
type pair struct{ new, old *corev1.Pod }

// pairOn finds the pair of a node; ok is false when there are more pods than two, which Manage sees to.
func pairOn(ds *appsv1.DaemonSet, here []*corev1.Pod, hash string) (p pair, ok bool) {
	for _, pod := range here {
		at := &p.old
		switch {
		case isDeleted(pod):
			continue
		case isUpdated(ds, pod, hash):
			at = &p.new
		}
		if *at != nil {
			return pair{}, false
		}
		*at = pod
	}
	return p, true
}

// Roll returns the next step of a rolling update. Without surge it deletes as many old pods as may be unavailable, and Manage
// brings the new ones; with surge it creates new pods beside old ones and deletes an old one when the new one is available.
func Roll(ds *appsv1.DaemonSet, nodes []Node, byNode map[string][]*corev1.Pod, hash string, now time.Time) (Plan, error) {
	shouldRun := map[string]bool{}
	names := slices.Collect(maps.Keys(byNode))
	for _, node := range nodes {
		if node.ShouldRun {
			shouldRun[node.Name] = true
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	l, err := limitsOf(ds, len(shouldRun))
	if err != nil {
		return Plan{}, err
	}
	r := rollout{ds: ds, limits: l, shouldRun: shouldRun, byNode: byNode, hash: hash, now: now}
	if l.surge == 0 {
		return r.replace(names), nil
	}
	return r.surge(names), nil
}

// rollout is what a step is decided on.
type rollout struct {
	ds *appsv1.DaemonSet
	limits
	shouldRun map[string]bool
	byNode    map[string][]*corev1.Pod
	hash      string
	now       time.Time
}

func (r *rollout) isAvailable(pod *corev1.Pod) bool {
	return pods.IsAvailable(pod, r.ds.Spec.MinReadySeconds, r.now)
}

// replace deletes old pods: all that are not available, and of the others as many as may be missing besides.
func (r *rollout) replace(names []string) Plan {
	var plan Plan
	var candidates []*corev1.Pod
	unavailable := 0
	for _, name := range names {
		p, ok := pairOn(r.ds, r.byNode[name], r.hash)
		switch {
		case !ok, (p.old == nil) == (p.new == nil):
			// Manage creates or deletes a pod here.
			unavailable++
		case p.new != nil:
			if !r.isAvailable(p.new) {
				unavailable++
			}
		case !r.isAvailable(p.old):
			plan.Delete = append(plan.Delete, p.old)
			unavailable++
		default:
			candidates = append(candidates, p.old)
		}
	}
	room := max(0, min(r.unavailable-unavailable, len(candidates)))
	plan.Delete = append(plan.Delete, candidates[:room]...)
	return plan
}

// surge creates new pods where the old one is not available, and on as many other nodes as may have two pods. A pod on a node
// that should not run one goes when enough others are available.
func (r *rollout) surge(names []string) Plan {
	var plan Plan
	var candidates []string
	var leaving []*corev1.Pod
	surged, available := 0, 0
	for _, name := range names {
		p, ok := pairOn(r.ds, r.byNode[name], r.hash)
		if !ok {
			surged++
			continue
		}
		if first := p.old; first != nil && r.isAvailable(first) || first == nil && p.new != nil && r.isAvailable(p.new) {
			available++
		}
		switch {
		case p.old == nil:
			// Either up to date or without a pod, which Manage creates.
		case p.new != nil && r.isAvailable(p.new):
			plan.Delete = append(plan.Delete, p.old)
		case p.new != nil:
			surged++
		case !r.shouldRun[name] && !r.isAvailable(p.old):
			plan.Delete = append(plan.Delete, p.old)
		case !r.shouldRun[name]:
			leaving = append(leaving, p.old)
		case !r.isAvailable(p.old):
			plan.Create = append(plan.Create, name)
		default:
			candidates = append(candidates, name)
		}
	}
	room := max(0, min(r.limits.surge-surged, len(candidates)))
	plan.Create = append(plan.Create, candidates[:room]...)
	spare := max(0, min(available-r.desired, len(leaving)))
	plan.Delete = append(plan.Delete, leaving[:spare]...)
	return plan
}

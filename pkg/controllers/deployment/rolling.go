// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Resize is the decision to give a ReplicaSet another number of replicas.
type Resize struct {
	ReplicaSet *appsv1.ReplicaSet
	Replicas   int32
}

func replicas(d *appsv1.Deployment) int32 { return ptr.Deref(d.Spec.Replicas, 1) }

func size(rs *appsv1.ReplicaSet) int32 { return ptr.Deref(rs.Spec.Replicas, 1) }

// isActive reports whether a ReplicaSet is meant to have pods.
func isActive(rs *appsv1.ReplicaSet) bool { return rs != nil && size(rs) > 0 }

func isRolling(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

// sum adds up value over the ReplicaSets; nil ones count nothing.
func sum(all []*appsv1.ReplicaSet, value func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, rs := range all {
		if rs != nil {
			total += value(rs)
		}
	}
	return total
}

func available(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }

// actual is how many pods the ReplicaSet had when its status was written.
func actual(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }

// fenceposts resolves maxSurge and maxUnavailable to numbers of pods: surge rounds up, unavailable down. When both come to
// 0 the rollout could never take a step, so that one pod may then be unavailable.
func fenceposts(d *appsv1.Deployment) (surge, unavailable int32) {
	if !isRolling(d) {
		return 0, 0
	}
	strategy := ptr.Deref(d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	resolve := func(value *intstr.IntOrString, roundUp bool) int32 {
		n, err := intstr.GetScaledValueFromIntOrPercent(new(ptr.Deref(value, intstr.FromInt32(0))), int(replicas(d)), roundUp)
		if err != nil {
			// Validation rejects such values.
			return 0
		}
		return int32(n)
	}
	surge = resolve(strategy.MaxSurge, true)
	unavailable = resolve(strategy.MaxUnavailable, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func maxSurge(d *appsv1.Deployment) int32 {
	surge, _ := fenceposts(d)
	return surge
}

func maxUnavailable(d *appsv1.Deployment) int32 {
	if replicas(d) == 0 {
		return 0
	}
	_, unavailable := fenceposts(d)
	return min(unavailable, replicas(d))
}

// newSize is the number of replicas the new ReplicaSet gets now: all of them with Recreate, and as many as the surge
// allows with RollingUpdate. all includes the new one when it exists.
func newSize(d *appsv1.Deployment, all []*appsv1.ReplicaSet, current int32) int32 {
	if !isRolling(d) {
		return replicas(d)
	}
	room := replicas(d) + maxSurge(d) - sum(all, size)
	if room <= 0 {
		return current
	}
	return current + min(room, replicas(d)-current)
}

// growNew is the step of a rolling update that resizes the new ReplicaSet; ok is false when it has the right size.
func growNew(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (Resize, bool) {
	current := size(newRS)
	wanted := replicas(d)
	if current < wanted {
		wanted = newSize(d, append(slices.Clone(old), newRS), current)
	}
	return Resize{newRS, wanted}, wanted != current
}

// serving is how many pods of the ReplicaSet count on the way to another size: those it has beyond the present one go at once,
// though the status may still count them as available.
func serving(rs *appsv1.ReplicaSet) int32 { return min(available(rs), size(rs)) }

// shrinkOld is the step of a rolling update that takes replicas from the old ReplicaSets. First go those that are not
// available, since they serve nobody, then available ones as far as maxUnavailable allows. While a status is older than the
// size that it goes with, nothing is known well enough to take anything away.
func shrinkOld(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []Resize {
	old = byAge(slices.DeleteFunc(slices.Clone(old), func(rs *appsv1.ReplicaSet) bool { return !isActive(rs) }))
	all := append(slices.Clone(old), newRS)
	if slices.ContainsFunc(all, func(rs *appsv1.ReplicaSet) bool { return rs.Status.ObservedGeneration < rs.Generation }) {
		return nil
	}
	minAvailable := replicas(d) - maxUnavailable(d)
	budget := sum(all, size) - minAvailable - (size(newRS) - serving(newRS))
	if budget <= 0 {
		return nil
	}
	target := map[*appsv1.ReplicaSet]int32{}
	taken := int32(0)
	for _, rs := range old {
		target[rs] = size(rs)
		if unhealthy := size(rs) - serving(rs); unhealthy > 0 && taken < budget {
			n := min(budget-taken, unhealthy)
			target[rs] -= n
			taken += n
		}
	}
	spare := min(sum(all, serving)-minAvailable, budget-taken)
	for _, rs := range old {
		if spare <= 0 {
			break
		}
		n := min(target[rs], spare)
		target[rs] -= n
		spare -= n
	}
	var resizes []Resize
	for _, rs := range old {
		if target[rs] != size(rs) {
			resizes = append(resizes, Resize{rs, target[rs]})
		}
	}
	return resizes
}

// isScaled reports whether the Deployment's replicas changed since its ReplicaSets were sized.
func isScaled(d *appsv1.Deployment, all []*appsv1.ReplicaSet) bool {
	return slices.ContainsFunc(all, func(rs *appsv1.ReplicaSet) bool {
		desired, ok := annotatedNumber(rs, DesiredReplicasAnnotation)
		return isActive(rs) && ok && desired != replicas(d)
	})
}

// rescale answers a change of the Deployment's replicas, and is all that happens while it is paused. In the midst of a
// rolling update the change is spread over the active ReplicaSets in proportion to their sizes, so that a rollout that
// went wrong does not take over by being scaled.
func rescale(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []Resize {
	if only, ok := activeOrLatest(newRS, old); ok {
		if only == nil {
			return nil
		}
		return []Resize{{only, replicas(d)}}
	}
	if isSaturated(d, newRS) {
		var resizes []Resize
		for _, rs := range old {
			if isActive(rs) {
				resizes = append(resizes, Resize{rs, 0})
			}
		}
		return resizes
	}
	if !isRolling(d) {
		return nil
	}
	return proportional(d, newRS, old)
}

// activeOrLatest returns the only active ReplicaSet, or the latest if none is; ok is false when several are active.
func activeOrLatest(newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (only *appsv1.ReplicaSet, ok bool) {
	var active []*appsv1.ReplicaSet
	for _, rs := range append(slices.Clone(old), newRS) {
		if isActive(rs) {
			active = append(active, rs)
		}
	}
	switch {
	case len(active) == 1:
		return active[0], true
	case len(active) > 1:
		return nil, false
	case newRS != nil:
		return newRS, true
	case len(old) > 0:
		sorted := byAge(old)
		return sorted[len(sorted)-1], true
	}
	return nil, true
}

// isSaturated reports whether the new ReplicaSet has all its replicas available, so that no old one is needed.
func isSaturated(d *appsv1.Deployment, newRS *appsv1.ReplicaSet) bool {
	if newRS == nil {
		return false
	}
	desired, ok := annotatedNumber(newRS, DesiredReplicasAnnotation)
	return ok && size(newRS) == replicas(d) && desired == replicas(d) && available(newRS) == replicas(d)
}

// proportional spreads the replicas that the Deployment gained or lost over its active ReplicaSets.
func proportional(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []Resize {
	var active []*appsv1.ReplicaSet
	for _, rs := range append(slices.Clone(old), newRS) {
		if isActive(rs) {
			active = append(active, rs)
		}
	}
	allowed := int32(0)
	if replicas(d) > 0 {
		allowed = replicas(d) + maxSurge(d)
	}
	add := allowed - sum(active, size)
	// The larger set comes first; among equals the youngest when growing, the oldest when shrinking.
	active = byAge(active)
	if add > 0 {
		slices.Reverse(active)
	}
	slices.SortStableFunc(active, func(a, b *appsv1.ReplicaSet) int { return int(size(b)) - int(size(a)) })

	target := make([]int32, len(active))
	added := int32(0)
	for i, rs := range active {
		target[i] = size(rs)
		if add != 0 {
			share := share(d, rs, add, added)
			target[i] += share
			added += share
		}
	}
	if len(target) > 0 && add != 0 {
		target[0] = max(0, target[0]+add-added)
	}
	var resizes []Resize
	for i, rs := range active {
		// Sets of unchanged size are listed too: their size annotations have to follow the Deployment.
		resizes = append(resizes, Resize{rs, target[i]})
	}
	return resizes
}

// share is the part of add that falls to rs when added has been handed out already.
func share(d *appsv1.Deployment, rs *appsv1.ReplicaSet, add, added int32) int32 {
	if add == added {
		return 0
	}
	fraction := fraction(d, rs)
	if add > 0 {
		return min(fraction, add-added)
	}
	return max(fraction, add-added)
}

// fraction is by how much rs would change if it kept its share of all replicas.
func fraction(d *appsv1.Deployment, rs *appsv1.ReplicaSet) int32 {
	if replicas(d) == 0 {
		return -size(rs)
	}
	before, ok := annotatedNumber(rs, MaxReplicasAnnotation)
	if !ok || before == 0 {
		before = d.Status.Replicas
		if before == 0 {
			return 0
		}
	}
	exact := float64(size(rs)) * float64(replicas(d)+maxSurge(d)) / float64(before)
	return int32(math.Floor(exact+0.5)) - size(rs)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/apps/poddisruptionbudget"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// deletionTimeout is how long after an eviction was granted its pod is waited for. A pod that is still there then was not
// deleted after all, and counts again.
const deletionTimeout = 2 * time.Minute

// Count is what a budget is computed from.
type Count struct {
	// Expected is how many pods there should be, Desired how many of them have to be healthy, Healthy how many are.
	Expected, Desired, Healthy int32
}

// NeedsScale reports whether the budget is relative to the number of pods that the controllers of the selected ones want.
func NeedsScale(spec *policyv1.PodDisruptionBudgetSpec) bool {
	return spec.MaxUnavailable != nil || (spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.String)
}

// Expectation returns the number of pods to expect and of those that have to be healthy. selected is the number of pods that
// the budget selects, scale the number that their controllers want. Percentages are rounded up.
func Expectation(spec *policyv1.PodDisruptionBudgetSpec, selected int, scale int32) (expected, desired int32, err error) {
	switch {
	case spec.MaxUnavailable != nil:
		unavailable, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(scale), true)
		if err != nil {
			return 0, 0, err
		}
		return scale, max(0, scale-int32(unavailable)), nil
	case spec.MinAvailable == nil:
		return 0, 0, nil
	case spec.MinAvailable.Type == intstr.Int:
		return int32(selected), spec.MinAvailable.IntVal, nil
	}
	available, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(scale), true)
	if err != nil {
		return 0, 0, err
	}
	return scale, int32(available), nil
}

// Disruptions are the pods whose eviction was granted.
type Disruptions struct {
	// Pods are those still waited for, with the time of their eviction.
	Pods map[string]metav1.Time
	// Survivors are those that should be gone by now.
	Survivors []*corev1.Pod
	// Recheck is the time until the next pod has been waited for long enough; 0 when none is waited for.
	Recheck time.Duration
}

// Disrupted sorts out the granted evictions. Those of pods that are being deleted or gone need no memory any more.
func Disrupted(granted map[string]metav1.Time, selected []*corev1.Pod, now time.Time) Disruptions {
	d := Disruptions{Pods: map[string]metav1.Time{}}
	for _, pod := range selected {
		at, ok := granted[pod.Name]
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		wait := at.Add(deletionTimeout).Sub(now)
		if wait < 0 {
			d.Survivors = append(d.Survivors, pod)
			continue
		}
		d.Pods[pod.Name] = at
		if d.Recheck == 0 || wait < d.Recheck {
			d.Recheck = max(wait, time.Millisecond)
		}
	}
	return d
}

// Healthy counts the pods that are ready and neither being deleted nor about to be.
func Healthy(selected []*corev1.Pod, disrupted map[string]metav1.Time, now time.Time) int32 {
	var healthy int32
	for _, pod := range selected {
		if at, ok := disrupted[pod.Name]; ok && at.Add(deletionTimeout).After(now) {
			continue
		}
		if pod.DeletionTimestamp == nil && pods.IsReady(pod) {
			healthy++
		}
	}
	return healthy
}

// Status returns the status of a budget.
func Status(pdb *policyv1.PodDisruptionBudget, count Count, disrupted map[string]metav1.Time) policyv1.PodDisruptionBudgetStatus {
	allowed := max(0, count.Healthy-count.Desired)
	if count.Expected <= 0 {
		allowed = 0
	}
	updated := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: pdb.Generation,
		DisruptedPods:      maps.Clone(disrupted),
		DisruptionsAllowed: allowed,
		CurrentHealthy:     count.Healthy,
		DesiredHealthy:     count.Desired,
		ExpectedPods:       count.Expected,
		Conditions:         slices.Clone(pdb.Status.Conditions),
	}}
	poddisruptionbudget.UpdateDisruptionAllowedCondition(updated)
	return updated.Status
}

// Failed returns the status of a budget that cannot be computed because of cause: what is known stays, nothing is allowed.
func Failed(pdb *policyv1.PodDisruptionBudget, cause error) policyv1.PodDisruptionBudgetStatus {
	status := *pdb.Status.DeepCopy()
	status.DisruptionsAllowed = 0
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type:               policyv1.DisruptionAllowedCondition,
		Status:             metav1.ConditionFalse,
		Reason:             policyv1.SyncFailedReason,
		Message:            cause.Error(),
		ObservedGeneration: status.ObservedGeneration,
	})
	return status
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
)

// verdict is what becomes of the number of pods that the metrics ask for, and why.
type verdict struct {
	replicas int32
	// able and limited are the reasons and messages of the conditions AbleToScale and ScalingLimited.
	able, limited explanation
	isLimited     bool
}

// explanation is the reason and the message of a condition.
type explanation struct{ reason, message string }

var (
	fits         = explanation{"ReadyForNewScale", "recommended size matches current size"}
	heldDown     = explanation{"ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"}
	heldUp       = explanation{"ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"}
	inRange      = explanation{"DesiredWithinRange", "the desired count is within the acceptable range"}
	tooFast      = explanation{"ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
	tooFastDown  = explanation{"ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
	aboveMaximum = explanation{"TooManyReplicas", "the desired replica count is more than the maximum replica count"}
	belowMinimum = explanation{"TooFewReplicas", "the desired replica count is less than the minimum replica count"}
)

// An autoscaler without rules of its own at most doubles the number of pods in one step, but may always have so many.
const (
	stepFactor  = 2.0
	stepMinimum = 4.0
)

// settle bounds the number of pods that metrics ask for by what they asked for lately (within downscale, if the autoscaler says nothing), by the rate of changes and by the smallest and
// largest number there may be. It notes in the history what they ask for.
func settle(spec *autoscalingv2.HorizontalPodAutoscalerSpec, h *history, current, wanted, minimum int32, downscale time.Duration, now time.Time) verdict {
	if spec.Behavior == nil {
		stable := stabilizeDown(h, wanted, downscale, now)
		v := verdict{able: fits}
		if stable != wanted {
			v.able = heldUp
		}
		v.replicas, v.limited = limitByDefault(current, stable, minimum, spec.MaxReplicas)
		v.isLimited = v.replicas != stable
		return v
	}
	stable := stabilize(spec.Behavior, h, current, wanted, downscale, now)
	v := verdict{able: fits}
	switch {
	case stable == wanted:
	case wanted >= current:
		v.able = heldDown
	default:
		v.able = heldUp
	}
	v.replicas, v.limited = limit(spec, h, current, stable, minimum, now)
	v.isLimited = v.replicas != stable
	if current == 0 { // and the minimum has been raised since the workload was scaled to zero
		v.replicas = max(v.replicas, minimum)
	}
	return v
}

// stabilizeDown returns the largest recommendation of a window.
func stabilizeDown(h *history, wanted int32, window time.Duration, now time.Time) int32 {
	highest, cutoff := wanted, now.Add(-window)
	for _, r := range h.recommendations {
		if !r.at.Before(cutoff) {
			highest = max(highest, r.replicas)
		}
	}
	h.recommend(wanted, now, window)
	return highest
}

// stabilize returns the number of pods that is closest to the current one, of those between the smallest recommendation of the
// window for more pods and the largest of that for less.
func stabilize(b *autoscalingv2.HorizontalPodAutoscalerBehavior, h *history, current, wanted int32, downscale time.Duration, now time.Time) int32 {
	up, down := window(b.ScaleUp, 0), window(b.ScaleDown, downscale)
	lowest, highest := wanted, wanted
	for _, r := range h.recommendations {
		if r.at.After(now.Add(-up)) {
			lowest = min(lowest, r.replicas)
		}
		if r.at.After(now.Add(-down)) {
			highest = max(highest, r.replicas)
		}
	}
	h.recommend(wanted, now, max(up, down))
	return min(max(current, lowest), highest)
}

// window is how long recommendations count for one direction. Defaults have filled in both directions, but not this.
func window(rules *autoscalingv2.HPAScalingRules, unsaid time.Duration) time.Duration {
	if rules.StabilizationWindowSeconds == nil {
		return unsaid
	}
	return time.Duration(*rules.StabilizationWindowSeconds) * time.Second
}

// limitByDefault is limit for an autoscaler without rules.
func limitByDefault(current, wanted, minimum, maximum int32) (int32, explanation) {
	allowed, reason := maximum, aboveMaximum
	if fast := toInt32(max(stepFactor*float64(current), stepMinimum)); maximum > fast {
		allowed, reason = fast, tooFast
	}
	switch {
	case wanted < minimum:
		return minimum, belowMinimum
	case wanted > allowed:
		return allowed, reason
	}
	return wanted, inRange
}

// limit applies the policies of the direction that the number of pods is to change in, and its bounds.
func limit(spec *autoscalingv2.HorizontalPodAutoscalerSpec, h *history, current, wanted, minimum int32, now time.Time) (int32, explanation) {
	switch {
	case wanted > current:
		allowed, reason := spec.MaxReplicas, aboveMaximum
		if fast := max(current, upLimit(spec.Behavior.ScaleUp, h, current, now)); allowed > fast {
			allowed, reason = fast, tooFast
		}
		if wanted > allowed {
			return allowed, reason
		}
	case wanted < current:
		allowed, reason := minimum, belowMinimum
		if fast := min(current, downLimit(spec.Behavior.ScaleDown, h, current, now)); allowed < fast {
			allowed, reason = fast, tooFastDown
		}
		if wanted < allowed {
			return allowed, reason
		}
	}
	return wanted, inRange
}

// upLimit returns how many pods there may be by the policies.
func upLimit(rules *autoscalingv2.HPAScalingRules, h *history, current int32, now time.Time) int32 {
	bounds := byPolicies(rules, h, current, now, func(start float64, p *autoscalingv2.HPAScalingPolicy) float64 {
		if p.Type == autoscalingv2.PercentScalingPolicy {
			// Rounded up: one more pod has to be possible.
			return math.Ceil(start * (1 + float64(p.Value)/100))
		}
		return start + float64(p.Value)
	})
	switch ptr.Deref(rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect) {
	case autoscalingv2.DisabledPolicySelect:
		return current
	case autoscalingv2.MinChangePolicySelect:
		return slices.Min(bounds)
	}
	return slices.Max(bounds)
}

// downLimit returns how many pods there have to be by the policies.
func downLimit(rules *autoscalingv2.HPAScalingRules, h *history, current int32, now time.Time) int32 {
	bounds := byPolicies(rules, h, current, now, func(start float64, p *autoscalingv2.HPAScalingPolicy) float64 {
		if p.Type == autoscalingv2.PercentScalingPolicy {
			return start * (1 - float64(p.Value)/100)
		}
		return start - float64(p.Value)
	})
	switch ptr.Deref(rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect) {
	case autoscalingv2.DisabledPolicySelect:
		return current
	case autoscalingv2.MinChangePolicySelect:
		return slices.Max(bounds)
	}
	return slices.Min(bounds)
}

// byPolicies returns what each policy makes of the number of pods at the start of its period. There is at least one policy.
func byPolicies(rules *autoscalingv2.HPAScalingRules, h *history, current int32, now time.Time, bound func(start float64, p *autoscalingv2.HPAScalingPolicy) float64) []int32 {
	bounds := make([]int32, len(rules.Policies))
	for i := range rules.Policies {
		p := &rules.Policies[i]
		bounds[i] = toInt32(bound(float64(h.startedFrom(current, p.PeriodSeconds, now)), p))
	}
	return bounds
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
)

// recommendation is the number of pods that the metrics asked for at a moment.
type recommendation struct {
	replicas int32
	at       time.Time
}

// scaling is a change of the number of pods, in whichever direction.
type scaling struct {
	change int32
	at     time.Time
}

// history is what is remembered of an autoscaler's past. It is lost with the process, as upstream's is. Not safe for concurrent use:
// it belongs to the worker that has the autoscaler's request.
type history struct {
	uid             types.UID
	recommendations []recommendation
	ups, downs      []scaling
}

// begin makes the current number of pods the first recommendation: after a restart there are not at once less of them, as nobody
// knows what was recommended before.
func (h *history) begin(current int32, now time.Time) {
	if h.recommendations == nil {
		h.recommendations = []recommendation{{current, now}}
	}
}

// recommend adds what the metrics ask for now, and forgets what is older than keep.
func (h *history) recommend(replicas int32, now time.Time, keep time.Duration) {
	cutoff := now.Add(-keep)
	h.recommendations = slices.DeleteFunc(h.recommendations, func(r recommendation) bool { return r.at.Before(cutoff) })
	h.recommendations = append(h.recommendations, recommendation{replicas, now})
}

// scaled adds a change of the number of pods. Without rules nobody asks for it later.
func (h *history) scaled(from, to int32, b *autoscalingv2.HorizontalPodAutoscalerBehavior, now time.Time) {
	switch {
	case b == nil:
	case to > from:
		h.ups = note(h.ups, scaling{to - from, now}, now.Add(-longestPeriod(b.ScaleUp)))
	default:
		h.downs = note(h.downs, scaling{from - to, now}, now.Add(-longestPeriod(b.ScaleDown)))
	}
}

// note adds a change in the place of one that no rule of its direction asks for any more. Rules of the other direction may: as with
// upstream, they miss it.
func note(all []scaling, s scaling, cutoff time.Time) []scaling {
	for i := range slices.Backward(all) {
		if all[i].at.Before(cutoff) {
			all[i] = s
			return all
		}
	}
	return append(all, s)
}

// startedFrom returns how many pods there were a period ago, if there were no changes but those of the autoscaler.
func (h *history) startedFrom(current, periodSeconds int32, now time.Time) int32 {
	cutoff := now.Add(-time.Duration(periodSeconds) * time.Second)
	for _, s := range h.ups {
		if s.at.After(cutoff) {
			current -= s.change
		}
	}
	for _, s := range h.downs {
		if s.at.After(cutoff) {
			current += s.change
		}
	}
	return current
}

// longestPeriod is how far back the rules of a direction look.
func longestPeriod(rules *autoscalingv2.HPAScalingRules) time.Duration {
	var seconds int32
	for i := range rules.Policies {
		seconds = max(seconds, rules.Policies[i].PeriodSeconds)
	}
	return time.Duration(seconds) * time.Second
}

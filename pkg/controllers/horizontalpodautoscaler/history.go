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

// scaled adds a change of the number of pods, and forgets what no rule asks for any more. Without rules nobody asks for any.
func (h *history) scaled(from, to int32, b *autoscalingv2.HorizontalPodAutoscalerBehavior, now time.Time) {
	switch {
	case b == nil:
	case to > from:
		h.ups = append(since(h.ups, now.Add(-longestPeriod(b))), scaling{to - from, now})
	default:
		h.downs = append(since(h.downs, now.Add(-longestPeriod(b))), scaling{from - to, now})
	}
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

// since returns the changes that were not before a moment.
func since(all []scaling, cutoff time.Time) []scaling {
	return slices.DeleteFunc(all, func(s scaling) bool { return s.at.Before(cutoff) })
}

// longestPeriod is how far back the rules look, of both directions: either takes both kinds of changes into account.
func longestPeriod(b *autoscalingv2.HorizontalPodAutoscalerBehavior) time.Duration {
	var seconds int32
	for _, rules := range []*autoscalingv2.HPAScalingRules{b.ScaleUp, b.ScaleDown} {
		for _, p := range rules.Policies {
			seconds = max(seconds, p.PeriodSeconds)
		}
	}
	return time.Duration(seconds) * time.Second
}

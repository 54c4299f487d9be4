// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

type (
	rules  = autoscalingv2.HPAScalingRules
	policy = autoscalingv2.HPAScalingPolicy
)

const (
	byPod     = autoscalingv2.PodsScalingPolicy
	byPercent = autoscalingv2.PercentScalingPolicy
)

// direction returns rules with a window, chosen among by how.
func direction(window int32, how autoscalingv2.ScalingPolicySelect, policies ...policy) *rules {
	return &rules{StabilizationWindowSeconds: &window, SelectPolicy: &how, Policies: policies}
}

// per is a policy: so much in so many seconds.
func per(kind autoscalingv2.HPAScalingPolicyType, value, seconds int32) policy {
	return policy{Type: kind, Value: value, PeriodSeconds: seconds}
}

// free are rules that hold nothing back.
func free() *rules { return direction(0, "Max", per(byPercent, 100000, 15)) }

func behavior(up, down *rules) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: up, ScaleDown: down}
}

// step is what the metrics ask for at a moment, and what has to become of it.
type step struct {
	after       time.Duration
	wanted      int32
	want        int32
	able, limit string
}

const s, m = time.Second, time.Minute

// settled are the cases of TestSettle: each step begins with the number of pods that the one before ended with.
var settled = []struct {
	name     string
	behavior *autoscalingv2.HorizontalPodAutoscalerBehavior
	start    int32
	min, max int32
	steps    []step
}{
	{name: "by default it at most doubles, or has four", start: 1, min: 1, max: 100, steps: []step{
		{0, 50, 4, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 50, 8, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 50, 16, "ReadyForNewScale", "ScaleUpLimit"},
		{15 * s, 30, 32, "ScaleDownStabilized", "ScaleUpLimit"},
	}},
	{name: "by default it shrinks five minutes after the last time it needed more", start: 10, min: 2, max: 20, steps: []step{
		{0, 12, 12, "ReadyForNewScale", "DesiredWithinRange"},
		{15 * s, 3, 12, "ScaleDownStabilized", "DesiredWithinRange"},
		{4*m + 30*s, 3, 12, "ScaleDownStabilized", "DesiredWithinRange"},
		{16 * s, 3, 3, "ReadyForNewScale", "DesiredWithinRange"},
		{15 * s, 1, 3, "ScaleDownStabilized", "DesiredWithinRange"},
		{5*m - 15*s, 1, 3, "ScaleDownStabilized", "DesiredWithinRange"},
		{1 * s, 1, 2, "ReadyForNewScale", "TooFewReplicas"},
	}},
	{name: "the first recommendation is the number there is, as after a restart", start: 9, min: 1, max: 20, steps: []step{
		{0, 1, 9, "ScaleDownStabilized", "DesiredWithinRange"},
		{5*m + s, 1, 1, "ReadyForNewScale", "DesiredWithinRange"},
	}},
	{name: "bounds", start: 5, min: 3, max: 6, steps: []step{{0, 9, 6, "ReadyForNewScale", "TooManyReplicas"}}},
	{name: "one pod in 15 seconds, up and down, as the first minik8s had it", start: 1, min: 1, max: 4,
		behavior: behavior(direction(0, "Max", per(byPod, 1, 15)), direction(0, "Max", per(byPod, 1, 15))), steps: []step{
			{0, 4, 2, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 4, 3, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 9, 4, "ReadyForNewScale", "TooManyReplicas"},
			{15 * s, 0, 3, "ReadyForNewScale", "ScaleDownLimit"}, {15 * s, 0, 2, "ReadyForNewScale", "ScaleDownLimit"}, {15 * s, 0, 1, "ReadyForNewScale", "TooFewReplicas"},
		}},
	{name: "one pod in 30 seconds does not change in between", start: 1, min: 1, max: 9,
		behavior: behavior(direction(0, "Max", per(byPod, 1, 30)), free()), steps: []step{
			{0, 9, 2, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 9, 2, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 9, 3, "ReadyForNewScale", "ScaleUpLimit"},
		}},
	{name: "the largest of several policies", start: 2, min: 1, max: 100,
		behavior: behavior(direction(0, "Max", per(byPod, 4, 15), per(byPercent, 100, 15)), free()), steps: []step{
			{0, 90, 6, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 90, 12, "ReadyForNewScale", "ScaleUpLimit"},
		}},
	{name: "the smallest of several policies", start: 2, min: 1, max: 100,
		behavior: behavior(direction(0, "Min", per(byPod, 4, 15), per(byPercent, 100, 15)), free()), steps: []step{
			{0, 90, 4, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 90, 8, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 90, 12, "ReadyForNewScale", "ScaleUpLimit"},
		}},
	{name: "a percentage is rounded up on the way up", start: 3, min: 1, max: 100,
		behavior: behavior(direction(0, "Max", per(byPercent, 10, 60)), free()), steps: []step{{0, 90, 4, "ReadyForNewScale", "ScaleUpLimit"}}},
	{name: "and down on the way down", start: 5, min: 1, max: 100,
		behavior: behavior(free(), direction(0, "Max", per(byPercent, 10, 60))), steps: []step{
			{0, 1, 4, "ReadyForNewScale", "ScaleDownLimit"}, {15 * s, 1, 4, "ReadyForNewScale", "ScaleDownLimit"}, {45 * s, 1, 3, "ReadyForNewScale", "ScaleDownLimit"},
		}},
	{name: "the least change on the way down", start: 20, min: 1, max: 100,
		behavior: behavior(free(), direction(0, "Min", per(byPercent, 50, 60), per(byPod, 3, 60))), steps: []step{{0, 1, 17, "ReadyForNewScale", "ScaleDownLimit"}}},
	{name: "up is switched off", start: 3, min: 1, max: 100,
		behavior: behavior(direction(0, "Disabled", per(byPod, 4, 15)), free()), steps: []step{
			{0, 9, 3, "ReadyForNewScale", "ScaleUpLimit"}, {15 * s, 2, 2, "ReadyForNewScale", "DesiredWithinRange"},
		}},
	{name: "down is switched off", start: 3, min: 1, max: 100,
		behavior: behavior(free(), direction(0, "Disabled", per(byPod, 4, 15))), steps: []step{
			{0, 1, 3, "ReadyForNewScale", "ScaleDownLimit"}, {15 * s, 9, 9, "ReadyForNewScale", "DesiredWithinRange"},
		}},
	{name: "a change in the other direction counts into the period", start: 10, min: 1, max: 100,
		behavior: behavior(direction(0, "Max", per(byPod, 3, 60)), direction(0, "Max", per(byPod, 4, 60))), steps: []step{
			{0, 1, 6, "ReadyForNewScale", "ScaleDownLimit"}, {15 * s, 90, 13, "ReadyForNewScale", "ScaleUpLimit"},
		}},
	{name: "a window on the way up takes the smallest recommendation", start: 2, min: 1, max: 100,
		behavior: behavior(direction(60, "Max", per(byPercent, 100000, 15)), free()), steps: []step{
			{0, 9, 2, "ScaleUpStabilized", "DesiredWithinRange"}, {30 * s, 5, 2, "ScaleUpStabilized", "DesiredWithinRange"}, {30 * s, 7, 5, "ScaleUpStabilized", "DesiredWithinRange"},
			{31 * s, 7, 7, "ReadyForNewScale", "DesiredWithinRange"},
		}},
	{name: "without a window of its own the way down has five minutes", start: 9, min: 1, max: 100,
		behavior: behavior(free(), &rules{Policies: free().Policies}), steps: []step{
			{0, 3, 9, "ScaleDownStabilized", "DesiredWithinRange"}, {5 * m, 3, 3, "ReadyForNewScale", "DesiredWithinRange"},
		}},
	{name: "from zero to a minimum that was raised", start: 0, min: 3, max: 9, behavior: behavior(free(), free()), steps: []step{{0, 0, 3, "ReadyForNewScale", "DesiredWithinRange"}}},
	{name: "a percentage of nothing is nothing", start: 0, min: 0, max: 9, behavior: behavior(free(), free()), steps: []step{{0, 5, 0, "ReadyForNewScale", "ScaleUpLimit"}}},
}

// TestSettle lets time pass.
func TestSettle(t *testing.T) {
	for _, tt := range settled {
		t.Run(tt.name, func(t *testing.T) {
			spec := &autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: tt.max, Behavior: tt.behavior}
			h, at, current := &history{}, now, tt.start
			h.begin(current, at)
			for i, s := range tt.steps {
				at = at.Add(s.after)
				v := settle(spec, h, current, s.wanted, tt.min, backward, at)
				got := step{s.after, s.wanted, v.replicas, v.able.reason, v.limited.reason}
				if diff := cmp.Diff(s, got, cmp.AllowUnexported(step{})); diff != "" {
					t.Fatalf("step %d from %d (-want +got):\n%s", i, current, diff)
				}
				if v.isLimited != (s.limit != "DesiredWithinRange") {
					t.Errorf("step %d: limited %t, but the reason is %s", i, v.isLimited, s.limit)
				}
				if v.replicas != current {
					h.scaled(current, v.replicas, tt.behavior, at)
				}
				current = v.replicas
			}
		})
	}
}

// What nobody asks for any more is forgotten: the process may run for years.
func TestHistory_Bounded(t *testing.T) {
	h, b := &history{}, behavior(direction(0, "Max", per(byPod, 4, 60)), direction(120, "Max", per(byPod, 4, 30)))
	spec := &autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 1000, Behavior: b}
	h.begin(1, now)
	for i := range 10000 {
		at := now.Add(time.Duration(i) * period)
		settle(spec, h, 1, int32(i%7), 1, backward, at)
		h.scaled(int32(1+i%2), int32(2-i%2), b, at)
	}
	if n := len(h.recommendations); n > 10 {
		t.Errorf("%d recommendations are remembered", n)
	}
	if n := len(h.ups) + len(h.downs); n > 12 {
		t.Errorf("%d changes are remembered", n)
	}
	h.scaled(1, 2, nil, now)
	if n := len(h.ups); n > 6 {
		t.Errorf("a change that no rule asks for is remembered: %d", n)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// sample is what a pod used of something, in thousandths, on average over a window of time that ended at a moment.
type sample struct {
	milli  int64
	at     time.Time
	window time.Duration
}

// samples are those of pods, by name.
type samples map[string]sample

// tolerance is by which part of the target the usage may be above or below it without consequence.
type tolerance struct{ up, down float64 }

// toleranceOf returns what the autoscaler says (KEP-4951), and what the settings say where it says nothing.
func toleranceOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior, unsaid float64) tolerance {
	t := tolerance{up: unsaid, down: unsaid}
	if b == nil {
		return t
	}
	if r := b.ScaleUp; r != nil && r.Tolerance != nil {
		t.up = r.Tolerance.AsApproximateFloat64()
	}
	if r := b.ScaleDown; r != nil && r.Tolerance != nil {
		t.down = r.Tolerance.AsApproximateFloat64()
	}
	return t
}

// allows reports whether a usage that is ratio times the target is close enough to it.
func (t tolerance) allows(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// youth is how long a pod is young.
type youth struct {
	// initialization is how long after its start a pod's processor time may be that of its start.
	initialization time.Duration
	// readiness is within which time after its start a pod that becomes unready has never been ready.
	readiness time.Duration
}

// leniency is what is not held against a workload: usage that is near the target, and what its pods use to start.
type leniency struct {
	tolerance
	youth
}

// leniencyOf returns that of an autoscaler.
func leniencyOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior, s setup.Settings) leniency {
	return leniency{
		tolerance: toleranceOf(b, *s.HorizontalPodAutoscalerTolerance),
		youth: youth{
			initialization: s.HorizontalPodAutoscalerCPUInitializationPeriod.Duration,
			readiness:      s.HorizontalPodAutoscalerInitialReadinessDelay.Duration,
		},
	}
}

// grouped are the pods of a workload by what their samples are worth.
type grouped struct {
	// ready is the number of pods whose sample counts.
	ready int
	// unready have a sample that tells nothing, or have not begun; missing should have one and have none. Names.
	unready, missing []string
	// counted are the samples that count.
	counted samples
}

// group looks at each pod: what has ended or is going is left out, and of processor time what a pod uses to start.
func group(all []*corev1.Pod, s samples, resource corev1.ResourceName, y youth, now time.Time) grouped {
	g := grouped{counted: maps.Clone(s)}
	for _, pod := range all {
		one, measured := s[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed:
			delete(g.counted, pod.Name)
		case pod.Status.Phase == corev1.PodPending:
			g.unready = append(g.unready, pod.Name)
			delete(g.counted, pod.Name)
		case !measured:
			g.missing = append(g.missing, pod.Name)
		case resource == corev1.ResourceCPU && y.isStarting(pod, one, now):
			g.unready = append(g.unready, pod.Name)
			delete(g.counted, pod.Name)
		default:
			g.ready++
		}
	}
	return g
}

// isStarting reports whether a sample of a pod's processor time may be of its start.
func (y youth) isStarting(pod *corev1.Pod, s sample, now time.Time) bool {
	ready := pods.Condition(pod, corev1.PodReady)
	if ready == nil || pod.Status.StartTime == nil {
		return true
	}
	started, unready := pod.Status.StartTime.Time, ready.Status == corev1.ConditionFalse
	if started.Add(y.initialization).After(now) {
		// The sample has to be of a whole window in which the pod was ready.
		return unready || s.at.Before(ready.LastTransitionTime.Add(s.window))
	}
	// A pod that has been unready since its start has never been ready.
	return unready && started.Add(y.readiness).After(ready.LastTransitionTime.Time)
}

// use is how much of something pods use.
type use struct {
	// ratio is in relation to the target.
	ratio float64
	// percent is in relation to what the pods request, if the target is.
	percent int32
	// average is of a pod, in thousandths.
	average int64
}

var (
	// errNoPods says that the selector of the scale selects nothing.
	errNoPods = errors.New("no pods returned by selector while calculating replica count")
	// errNoSamples says that nothing is known of those that it selects.
	errNoSamples = errors.New("did not receive metrics for targeted pods (pods might be unready)")
)

// replicasByPods returns how many pods would bring the usage to the target. What is not known of a pod is assumed to be against a
// change: nothing if there should be more pods, all that it may use (absent, in thousandths) if there should be less; and if it
// turns the decision round, nothing is done.
func replicasByPods(current int32, g grouped, t tolerance, measure func(samples) (use, error), absent func(pod string) int64) (int32, use, error) {
	if len(g.counted) == 0 {
		return 0, use{}, errNoSamples
	}
	known, err := measure(g.counted)
	if err != nil {
		return 0, use{}, err
	}
	waiting := len(g.unready) > 0 && known.ratio > 1
	if !waiting && len(g.missing) == 0 {
		if t.allows(known.ratio) {
			return current, known, nil
		}
		return ceil(known.ratio * float64(g.ready)), known, nil
	}
	assumed := maps.Clone(g.counted)
	for _, pod := range g.missing {
		switch {
		case known.ratio < 1:
			assumed[pod] = sample{milli: absent(pod)}
		case known.ratio > 1:
			assumed[pod] = sample{}
		}
	}
	if waiting {
		for _, pod := range g.unready {
			assumed[pod] = sample{}
		}
	}
	careful, err := measure(assumed)
	if err != nil {
		return 0, use{}, err
	}
	if t.allows(careful.ratio) || known.ratio < 1 && careful.ratio > 1 || known.ratio > 1 && careful.ratio < 1 {
		return current, known, nil
	}
	n := ceil(careful.ratio * float64(len(assumed)))
	if careful.ratio < 1 && n > current || careful.ratio > 1 && n < current {
		return current, known, nil
	}
	return n, known, nil
}

// utilization measures what pods use in relation to what they request (in thousandths, by name), of which target is so many percent.
// Samples of pods that are not among them do not count.
func utilization(requests map[string]int64, target int32) func(samples) (use, error) {
	return func(s samples) (use, error) {
		var used, requested, n int64
		for name, one := range s {
			if request, known := requests[name]; known {
				used, requested, n = plus(used, one.milli), plus(requested, request), n+1
			}
		}
		if requested == 0 {
			return use{}, errors.New("no metrics returned matched known pods")
		}
		if used < 0 {
			return use{}, negative(used)
		}
		percent := toInt32(float64(used) / float64(requested) * 100)
		if used <= math.MaxInt64/100 {
			percent = toInt32(float64(used * 100 / requested))
		}
		return use{ratio: float64(percent) / float64(target), percent: percent, average: used / n}, nil
	}
}

// plainUse measures what pods use on average in relation to a target, both in thousandths.
func plainUse(target int64) func(samples) (use, error) {
	return func(s samples) (use, error) {
		var used int64
		for _, one := range s {
			used = plus(used, one.milli)
		}
		if used < 0 {
			return use{}, negative(used)
		}
		average := used / int64(len(s))
		return use{ratio: float64(average) / float64(target), average: average}, nil
	}
}

// replicasByValue returns how many pods bring a value, which is ratio times its target, down to it. Without any pod there is
// nothing to go by but the ratio.
func replicasByValue(current int32, ratio float64, t tolerance, all []*corev1.Pod) (int32, error) {
	switch {
	case current == 0:
		return ceil(ratio), nil
	case t.allows(ratio):
		return current, nil
	case len(all) == 0:
		return 0, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
	}
	ready := 0
	for _, pod := range all {
		if pod.Status.Phase == corev1.PodRunning && pods.IsReady(pod) {
			ready++
		}
	}
	return ceil(ratio * float64(ready)), nil
}

// replicasByShare returns how many pods there have to be for each to have its share of a value, and how much each of the current
// ones has; of no pods it is the whole. All in thousandths.
func replicasByShare(current int32, value, share int64, t tolerance) (replicas int32, each int64) {
	wanted := float64(value) / float64(share)
	if current == 0 {
		return ceil(wanted), value
	}
	replicas = current
	if !t.allows(wanted / float64(current)) {
		replicas = ceil(wanted)
	}
	if value == math.MaxInt64 {
		return replicas, value // more than can be said
	}
	return replicas, int64(math.Ceil(float64(value) / float64(current)))
}

// total adds up the values of a metric.
func total(values []int64) (int64, error) {
	var sum int64
	for _, v := range values {
		sum = plus(sum, v)
	}
	if sum < 0 {
		return 0, negative(sum)
	}
	return sum, nil
}

// negative refuses to decide on a usage below nothing: upstream would take it for a reason to have as few pods as possible, or, of an
// external metric with a target for each pod, as many.
func negative(milli int64) error {
	return fmt.Errorf("the metric's value is negative (%dm)", milli)
}

// plus adds up without turning what is too much into something negative.
func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// ceil rounds a number of pods up.
func ceil(n float64) int32 { return toInt32(math.Ceil(n)) }

// toInt32 cuts off what is behind the point, and what an int32 cannot hold.
func toInt32(f float64) int32 {
	return int32(max(math.MinInt32, min(math.MaxInt32, f)))
}

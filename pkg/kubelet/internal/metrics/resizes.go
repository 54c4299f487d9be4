// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
)

// resizes count and time what comes of the resizes of pods.
type resizes struct {
	requested, infeasible, accepted *metrics.CounterVec
	took, deferred                  *metrics.HistogramVec
}

// priorityText explains the label of priorities, as upstream.
const priorityText = "Label 'priority_bucket' classifies the pod priority " +
	"(system-critical: >=2000000000, high: 100000..1999999999, medium: 1..99999, normal: 0/default, low: -999..-1, very-low: <=-1000, unknown: nil pod). "

func (m *Metrics) newResizes() resizes {
	return resizes{
		requested: m.counterVec("container_requested_resizes_total", "Number of requested resizes, counted at the container level. Different "+
			"resources on the same container are counted separately. The 'requirement' label refers to 'memory' or 'limits'; the 'operation' "+
			"label can be one of 'add', 'remove', 'increase' or 'decrease'.", "resource", "requirement", "operation"),
		infeasible: m.counterVec("pod_infeasible_resizes_total", "Number of infeasible resizes for pods.", "reason_detail"),
		accepted: m.counterVec("pod_deferred_accepted_resizes_total",
			"Cumulative number of resizes that were accepted after being deferred.", "retry_trigger"),
		took: m.histogramVec("pod_resize_duration_milliseconds", "Duration in milliseconds to actuate a pod resize",
			[]float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000}, "success"),
		deferred: m.histogramVec("pod_deferred_resize_duration_seconds", "Duration in seconds that a pod resize remains deferred before completion. "+
			priorityText+"Label 'resolution' describes how the deferred resize was resolved (accepted, reverted, terminated).",
			[]float64{5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 300, 600, 1200, 1800, 3600}, "resolution", "priority_bucket"),
	}
}

// ResizeRequested notes that a container asks for another amount of a resource.
func (m *Metrics) ResizeRequested(r allocation.Request) {
	m.requested.WithLabelValues(r.Resource, r.Requirement, r.Operation).Inc()
}

// ResizeInfeasible notes that a resize will never be.
func (m *Metrics) ResizeInfeasible(cause string) { m.infeasible.WithLabelValues(cause).Inc() }

// DeferredResize notes what has come of a resize that has waited for room.
func (m *Metrics) DeferredResize(pod *corev1.Pod, resolution string, waited time.Duration) {
	m.deferred.WithLabelValues(resolution, priorityBucket(ptr.Deref(pod.Spec.Priority, 0))).Observe(waited.Seconds())
}

// DeferredAccepted notes that a resize which has waited has found room, when it was looked at for that cause.
func (m *Metrics) DeferredAccepted(trigger string) { m.accepted.WithLabelValues(trigger).Inc() }

// Resized notes an attempt to give a pod and its containers the resources that they ask for.
func (m *Metrics) Resized(took time.Duration, done bool) {
	m.took.WithLabelValues(strconv.FormatBool(done)).Observe(float64(took.Milliseconds()))
}

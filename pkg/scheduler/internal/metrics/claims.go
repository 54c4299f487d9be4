// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The stages in which the volumes of a pod may fail, as labels: they are looked for, kept for the pod, and bound.
const (
	VolumesFound   = "predicate"
	VolumesAssumed = "assume"
	VolumesBound   = "bind"
)

// What comes of devices that are to be prepared before a pod is bound, as labels.
const (
	DevicesReady    = "success"
	DevicesFailed   = "failure"
	DevicesTimedOut = "timeout"
	DevicesUnknown  = "error" // they could not be looked at
)

// claims are the metrics of volumes and devices.
type claims struct {
	volumeErrors *prometheus.CounterVec
	created      *prometheus.CounterVec
	prepared     *prometheus.CounterVec
	preparation  *prometheus.HistogramVec
}

func newClaims() claims {
	return claims{
		volumeErrors: counter(alpha, "volume_scheduling_stage_error_total", "Volume scheduling stage error count", "operation"),
		// Upstream's kube-controller-manager has it, too, for claims that are made from templates.
		created: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "dynamic_resource_allocation", Name: "resourceclaim_creates_total",
			Help: alpha + "Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning API group and kind (either Pod or scheduling.k8s.io/PodGroup)"},
			[]string{"status", "admin_access", "owner_api_group", "owner_api_kind"}),
		prepared: counter(alpha, "dra_bindingconditions_allocations_total",
			"Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt", "profile", "driver", "status"),
		preparation: histogram(alpha, "dra_bindingconditions_wait_duration_seconds",
			"Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.", prometheus.ExponentialBuckets(0.1, 2, 14), "profile", "driver", "status"),
	}
}

func (c *claims) all() []prometheus.Collector {
	return []prometheus.Collector{c.volumeErrors, c.created, c.prepared, c.preparation}
}

// VolumesFailed counts an error in a stage; that a node does not fit is none.
func (m *Metrics) VolumesFailed(stage string) {
	if m != nil {
		m.claims.volumeErrors.WithLabelValues(stage).Inc()
	}
}

// ClaimCreated tells how it ended that a claim was made for a pod's extended resources.
func (m *Metrics) ClaimCreated(err error) {
	if m == nil {
		return
	}
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.claims.created.WithLabelValues(status, "false", "", "Pod").Inc()
}

// DeviceAwaited tells what came of a device of a driver, of a pod that waited so long for all of its devices, and whether it is one of
// those that were to be prepared.
func (m *Metrics) DeviceAwaited(profile, driver, status string, took time.Duration, wasPrepared bool) {
	if m == nil {
		return
	}
	m.claims.preparation.WithLabelValues(profile, driver, status).Observe(took.Seconds())
	if wasPrepared {
		m.claims.prepared.WithLabelValues(profile, driver, status).Inc()
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"
	"time"

	"google.golang.org/grpc/status"
	"k8s.io/component-base/metrics"
)

const draSubsystem = "dra"

// draBuckets are upstream's, up to the patience with drivers.
var draBuckets = metrics.ExponentialBucketsRange(.1, 40, 15)

// DRA are the metrics of dynamic resource allocation.
type DRA struct{ operations, calls *metrics.HistogramVec }

// DRA makes them, once. inUse tells at any time how many claims are prepared, by driver.
func (m *Metrics) DRA(inUse func() map[string]int) *DRA {
	vec := func(name, help string, labels ...string) *metrics.HistogramVec {
		h := metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: draSubsystem, Name: name, Help: help, Buckets: draBuckets, StabilityLevel: metrics.ALPHA}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.registry.CustomMustRegister(&constants{list: []*metrics.Desc{claimsInUse}, collect: func(ch chan<- metrics.Metric) {
		for driver, n := range inUse() {
			ch <- metrics.NewLazyConstMetric(claimsInUse, metrics.GaugeValue, float64(n), driver)
		}
	}})
	return &DRA{
		operations: vec("operations_duration_seconds", "Latency histogram in seconds for the duration of handling all ResourceClaims "+
			"referenced by a pod when the pod starts or stops. Identified by the name of the operation (PrepareResources or "+
			"UnprepareResources) and separated by the success of the operation. The number of failed operations is provided through "+
			"the histogram's overall count.", "operation_name", "is_error"),
		calls: vec("grpc_operations_duration_seconds", "Duration in seconds of the DRA gRPC operations", "driver_name", "method_name", "grpc_status_code"),
	}
}

var claimsInUse = metrics.NewDesc(metrics.BuildFQName("", draSubsystem, "resource_claims_in_use"),
	"The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label value) and across all "+
		"drivers (special value <any> for driver_name). Note that the sum of all by-driver counts is not the total number of in-use "+
		"ResourceClaims because the same ResourceClaim might use devices from different drivers. Instead, use the count for the "+
		"<any> driver_name.", []string{"driver_name"}, nil, metrics.ALPHA, "")

// Operation notes one about all claims of a pod.
func (d *DRA) Operation(name string, took time.Duration, err error) {
	d.operations.WithLabelValues(name, strconv.FormatBool(err != nil)).Observe(took.Seconds())
}

// Call notes one of a driver.
func (d *DRA) Call(driver, method string, took time.Duration, err error) {
	d.calls.WithLabelValues(driver, method, status.Code(err).String()).Observe(took.Seconds())
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"errors"

	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/endpointslice/metrics"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// register has what the slicing package counts counted, and told of beside the metrics of the other controllers.
func register() error {
	for _, m := range []componentmetrics.Registerable{
		metrics.EndpointsAddedPerSync, metrics.EndpointsRemovedPerSync, metrics.EndpointsDesired, metrics.NumEndpointSlices, metrics.DesiredEndpointSlices,
		metrics.EndpointSliceChanges, metrics.EndpointSlicesChangedPerSync, metrics.EndpointSliceSyncs, metrics.ServicesCountByTrafficDistribution,
	} {
		m.Create(nil) // before that it counts nothing
		if err := setup.Register(m); err != nil {
			return err
		}
	}
	return nil
}

// count notes how a pass has ended.
func count(err error) {
	result := "success"
	switch {
	case errors.Is(err, errBehind):
		result = "stale"
	case err != nil:
		result = "error"
	}
	metrics.EndpointSliceSyncs.WithLabelValues(result).Inc()
}

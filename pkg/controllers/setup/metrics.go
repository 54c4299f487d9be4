// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Register adds metrics of a controller to those of the process, unless they are there: several sets of controllers in one process
// share the numbers. Names, labels and buckets are those of upstream's controller.
func Register(collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		var already prometheus.AlreadyRegisteredError
		if err := metrics.Registry.Register(c); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

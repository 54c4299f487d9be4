// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// running tells which process gives nodes their ranges. Upstream's kube-controller-manager tells that of no other controller, so here,
// too, the metric is there only where this one runs.
var running = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "running_managed_controllers", Help: "[BETA] Indicates where instances of a controller are currently running",
}, []string{"name", "manager"})

// beRunning says that the controller runs until ctx ends.
func beRunning(ctx context.Context) error {
	gauge := running.WithLabelValues("nodeipam", "kube-controller-manager")
	gauge.Set(1)
	defer gauge.Set(0)
	<-ctx.Done()
	return nil
}

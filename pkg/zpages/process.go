// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package zpages

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // requests to the API server, in the registry of the process
	_ "k8s.io/component-base/metrics/prometheus/version"    // kubernetes_build_info, likewise
)

// Process has those metrics of the process that are told of any component: its use of memory and time, its requests to the API server, its
// build. What only one component has, such as an API server in the same process, is not among them.
func Process() prometheus.Gatherer {
	return prometheus.GathererFunc(only(legacyregistry.DefaultGatherer.Gather, ofAnyComponent))
}

func ofAnyComponent(name string) bool {
	return name == "kubernetes_build_info" ||
		slices.ContainsFunc([]string{"go_", "process_", "rest_client_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// only leaves out the families that are not to be kept.
func only[F interface{ GetName() string }](gather func() ([]F, error), keep func(string) bool) func() ([]F, error) {
	return func() ([]F, error) {
		all, err := gather()
		return slices.DeleteFunc(all, func(f F) bool { return !keep(f.GetName()) }), err
	}
}

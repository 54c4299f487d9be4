// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package feature has the feature gates by which this project's own code acts, and upstream's others; touch it when upstream's feature
// behind a further one is written here, and take that gate out of Upstream.
package feature

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// GenericWorkload serves Workloads and PodGroups, and lets pods name the group that they are scheduled with (KEP-4671).
const GenericWorkload featuregate.Feature = "GenericWorkload"

// Gates are the process's own. They know those of this package as soon as it is linked: nobody can ask too early. Only tests need
// them, for k8s.io/component-base/featuregate/testing; others ask Enabled.
var Gates = register()

func register() featuregate.FeatureGate {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		GenericWorkload: {PreRelease: featuregate.Beta},
	}))
	return utilfeature.DefaultFeatureGate
}

// Enabled tells whether a gate is on in this process. It may change until the process's flags are read, and in tests.
func Enabled(gate featuregate.Feature) bool { return Gates.Enabled(gate) }

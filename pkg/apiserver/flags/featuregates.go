// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// SetFeatureGates is --feature-gates for those who have no command line: it switches features of the process, once, before
// there is a server.
func SetFeatureGates(values map[string]bool) error {
	feature.AddUpstream()
	return setGates(utilfeature.DefaultMutableFeatureGate, values)
}

// CheckFeatureGates fails as SetFeatureGates would, and switches nothing.
func CheckFeatureGates(values map[string]bool) error {
	feature.AddUpstream()
	return setGates(utilfeature.DefaultMutableFeatureGate.DeepCopy(), values)
}

func setGates(gates featuregate.MutableFeatureGate, values map[string]bool) error {
	if err := gates.SetFromMap(values); err != nil {
		return err
	}
	return CheckGates(gates)
}

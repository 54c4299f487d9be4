// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// supportedFeatures are those that a class says it has, in the order of their names. `make gateway` runs the suite's tests of them.
var supportedFeatures = func() []gatewayv1.SupportedFeature {
	var all []gatewayv1.SupportedFeature
	for f := range features.AllFeatures.Difference(features.MeshCoreFeatures).Difference(features.MeshExtendedFeatures) {
		all = append(all, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(f.Name)})
	}
	slices.SortFunc(all, func(a, b gatewayv1.SupportedFeature) int { return cmp.Compare(a.Name, b.Name) })
	return all
}()

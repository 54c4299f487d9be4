// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	maxUtilization = 100
	// perPoint is what one of the ten points of a shape is worth.
	perPoint = fwk.MaxScore / 10
)

// Shape scores by utilization: a broken line through points that are ordered by it,
// of which there is one at least.
type Shape []configv1.UtilizationShapePoint

// Score is the line at requested's share of capacity, which counts as all of it
// where there is less than that.
func (s Shape) Score(requested, capacity int64) int64 {
	if capacity == 0 || requested > capacity {
		return s.at(maxUtilization)
	}
	return s.at(requested * maxUtilization / capacity)
}

func (s Shape) at(utilization int64) int64 {
	for i := range s {
		x, y := int64(s[i].Utilization), int64(s[i].Score)*perPoint
		if utilization > x {
			continue
		}
		if i == 0 {
			return y
		}
		x0, y0 := int64(s[i-1].Utilization), int64(s[i-1].Score)*perPoint
		return y0 + (y-y0)*(utilization-x0)/(x-x0)
	}
	return int64(s[len(s)-1].Score) * perPoint
}

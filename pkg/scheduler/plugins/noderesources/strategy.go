// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"fmt"

	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// strategy scores a node by one resource, from 0 to fwk.MaxScore. capacity is not 0.
type strategy func(requested, capacity int64) int64

func strategyOf(s *configv1.ScoringStrategy) (strategy, error) {
	switch s.Type {
	case configv1.LeastAllocated:
		return least, nil
	case configv1.MostAllocated:
		return most, nil
	case configv1.RequestedToCapacityRatio:
		if s.RequestedToCapacityRatio == nil || len(s.RequestedToCapacityRatio.Shape) == 0 {
			return nil, fmt.Errorf("scoring strategy %s needs a shape", s.Type)
		}
		return shape(s.RequestedToCapacityRatio.Shape).score, nil
	}
	return nil, fmt.Errorf("scoring strategy %s is not supported", s.Type)
}

func least(requested, capacity int64) int64 {
	if requested > capacity {
		return 0
	}
	return (capacity - requested) * fwk.MaxScore / capacity
}

func most(requested, capacity int64) int64 {
	return min(requested, capacity) * fwk.MaxScore / capacity
}

// shape is a broken line through points that are ordered by utilization.
type shape []configv1.UtilizationShapePoint

const (
	maxUtilization = 100
	// perPoint is what one of the ten points of a shape is worth.
	perPoint = fwk.MaxScore / 10
)

func (s shape) score(requested, capacity int64) int64 {
	if requested > capacity {
		return s.at(maxUtilization)
	}
	return s.at(requested * maxUtilization / capacity)
}

func (s shape) at(utilization int64) int64 {
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

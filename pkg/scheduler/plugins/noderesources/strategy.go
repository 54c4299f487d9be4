// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"fmt"

	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
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
		return framework.Shape(s.RequestedToCapacityRatio.Shape).Score, nil
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"time"

	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
)

// Memory is what a group uses of the memory, as the API tells it.
func Memory(u cgroup.Stats, now time.Time) *statsv1alpha1.MemoryStats { return memory(u, 0, now) }

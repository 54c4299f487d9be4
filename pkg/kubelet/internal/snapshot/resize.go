// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Resize is that a running container has other resources than its spec asks for (KEP-1287).
type Resize struct {
	Want container.Resources
	// Restart: the resizePolicy of what has changed says so.
	Restart bool
}

// resize compares what the engine says of a running container with what its spec wants; nil if that is the same.
func resize(running *container.Container, spec *corev1.Container, want container.Resources) *Resize {
	have := running.Resources
	want.PidsLimit = have.PidsLimit // not the pod's to choose
	if have == (container.Resources{}) || want == have {
		return nil
	}
	r := &Resize{Want: want}
	for _, p := range spec.ResizePolicy {
		if p.RestartPolicy != corev1.RestartContainer {
			continue
		}
		switch p.ResourceName {
		case corev1.ResourceMemory:
			r.Restart = r.Restart || want.MemoryBytes != have.MemoryBytes
		case corev1.ResourceCPU:
			r.Restart = r.Restart || want.CPUShares != have.CPUShares || want.CPUQuota != have.CPUQuota || want.CPUPeriod != have.CPUPeriod
		}
	}
	return r
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"

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
	if have == (container.Resources{}) || only(want, have) == have {
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

// move is what a running container is to be set to so that it runs where it is to run (by want), and is changed in nothing else; nil
// if it does, or may run anywhere.
func move(running *container.Container, want container.Resources) *container.Resources {
	have := running.Resources
	if want = at(want, have); have == (container.Resources{}) || want == have {
		return nil
	}
	return &want
}

// only is r where have is: what differs then is not the place.
func only(r, have container.Resources) container.Resources {
	r.CPUs, r.NUMANodes = have.CPUs, have.NUMANodes
	return r
}

// at is r in another place, as far as that is said.
func at(place, r container.Resources) container.Resources {
	r.CPUs, r.NUMANodes = cmp.Or(place.CPUs, r.CPUs), cmp.Or(place.NUMANodes, r.NUMANodes)
	return r
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Resize is that a running container has other resources than its spec asks for (KEP-1287).
type Resize struct {
	Want container.Resources
	// Restart: the resizePolicy of what has changed says so.
	Restart bool
}

// labelMemory is the label of a container that says how many bytes of memory it asked for when it was made, of which the engine knows
// nothing. Only one that is made anew for other memory has it.
const labelMemory = "memory-request"

// Labels are those of a container that is made from spec in a run of its pod.
func Labels(spec *corev1.Container, run uint32) map[string]string {
	labels := RunLabels(run)
	if restartsFor(spec, corev1.ResourceMemory) {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[labelMemory] = memoryRequest(spec)
	}
	return labels
}

func memoryRequest(spec *corev1.Container) string {
	return strconv.FormatInt(spec.Resources.Requests.Memory().Value(), 10)
}

// restartsFor says whether a container is made anew to have other amounts of a resource.
func restartsFor(spec *corev1.Container, name corev1.ResourceName) bool {
	return slices.Contains(spec.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: corev1.RestartContainer})
}

// resize compares what the engine says of a running container with what its spec wants; nil if that is the same.
func resize(running *container.Container, spec *corev1.Container, want container.Resources) *Resize {
	have := running.Resources
	want.PidsLimit = have.PidsLimit // not the pod's to choose
	memory, cpu := restartsFor(spec, corev1.ResourceMemory), restartsFor(spec, corev1.ResourceCPU)
	asked, known := running.Labels[labelMemory]
	asksAnew := memory && known && asked != memoryRequest(spec)
	if have == (container.Resources{}) || only(want, have) == have && !asksAnew {
		return nil
	}
	return &Resize{
		Want: want,
		Restart: asksAnew || memory && want.MemoryBytes != have.MemoryBytes ||
			cpu && (want.CPUShares != have.CPUShares || want.CPUQuota != have.CPUQuota || want.CPUPeriod != have.CPUPeriod),
	}
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// window is the least time over which CPU is averaged, if there is a choice: over less it says little. Over less than shortest it
	// says nothing.
	window, shortest = 10 * time.Second, fresh
	// young is the age up to which a container's CPU may be averaged over its life.
	young = 2 * longestRest
)

// sample is what a kubelet told at one time.
type sample struct {
	at   time.Time
	node point
	pods map[types.NamespacedName]map[string]point // by container
}

// point is what a node or a container had used at one time.
type point struct {
	at time.Time // when cpu was read
	// started is when cpu was 0; zero if that is not known.
	started           time.Time
	cpu               time.Duration
	memory            int64 // working set, bytes
	hasCPU, hasMemory bool
}

// usage is what a node or a container uses: CPU on average over a window that ends at a time, memory at that time.
type usage struct {
	at     time.Time
	window time.Duration
	cpu    float64 // cores
	memory int64   // bytes
}

type containerUsage struct {
	name string
	usage
}

// resources is usage in the units of metrics-server.
func (u usage) resources() corev1.ResourceList {
	cpu := *resource.NewScaledQuantity(int64(u.cpu*1e9), resource.Nano)
	cpu.Format = resource.DecimalSI
	return corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: *resource.NewQuantity(u.memory, resource.BinarySI)}
}

// remember adds a sample, and forgets those that nothing will be compared with: all but one that are older than the window.
func remember(history []sample, s sample) []sample {
	first := 0
	for i, old := range history {
		if s.at.Sub(old.at) >= window {
			first = i
		}
	}
	return append(slices.Clone(history[first:]), s) // others may be reading the old one
}

// nodeUsage compares the last sample with those before.
func nodeUsage(history []sample) (usage, bool) {
	return compare(history, func(s sample) point { return s.node })
}

// podUsage is that of all containers that ran at the last sample, by name; false if one of them cannot be told yet.
func podUsage(history []sample, pod types.NamespacedName) ([]containerUsage, bool) {
	if len(history) == 0 {
		return nil, false
	}
	var all []containerUsage
	for _, name := range slices.Sorted(maps.Keys(history[len(history)-1].pods[pod])) {
		u, ok := compare(history, func(s sample) point { return s.pods[pod][name] })
		if !ok {
			return nil, false
		}
		all = append(all, containerUsage{name, u})
	}
	return all, len(all) > 0
}

// compare computes a usage from the last sample and the newest that is older than the window. Without such a one, what is young is
// measured since its start, and else from the oldest sample.
func compare(history []sample, of func(sample) point) (usage, bool) {
	if len(history) == 0 {
		return usage{}, false
	}
	last := of(history[len(history)-1])
	if !last.hasCPU || !last.hasMemory {
		return usage{}, false
	}
	var base point
	for _, s := range slices.Backward(history[:len(history)-1]) {
		p := of(s)
		// A point before the start is that of another container of the name.
		if !p.hasCPU || !p.at.Before(last.at) || p.cpu > last.cpu || !p.started.Equal(last.started) {
			break
		}
		base = p
		if last.at.Sub(p.at) >= window {
			break
		}
	}
	age := last.at.Sub(last.started)
	if (!base.hasCPU || last.at.Sub(base.at) < window) && age >= window && age <= young {
		base = point{at: last.started, hasCPU: true}
	}
	over := last.at.Sub(base.at)
	if !base.hasCPU || over < shortest {
		return usage{}, false
	}
	return usage{at: last.at, window: over, cpu: (last.cpu - base.cpu).Seconds() / over.Seconds(), memory: last.memory}, true
}

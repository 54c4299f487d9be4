// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Usage is what pods use. A pod without entry could not be measured.
type Usage map[types.UID]*statsv1alpha1.PodStats

// measured is which file systems of a pod count for a signal.
type measured struct{ rootfs, logs, volumes bool }

// measuredBy says what is on the file system of a signal; dedicated: images and containers have one of their own.
func measuredBy(s Signal, dedicated bool) measured {
	switch {
	case !dedicated:
		return measured{true, true, true}
	case s == NodeFsAvailable || s == NodeFsInodesFree:
		return measured{logs: true, volumes: true}
	}
	return measured{rootfs: true}
}

// rank sorts pods for a signal: who is to go comes first.
func rank(pods []*corev1.Pod, usage Usage, s Signal, dedicated bool) {
	resourceOf := kinds[s].resource
	used := func(p *corev1.Pod) (resource.Quantity, bool) {
		u := usage[p.UID]
		if u == nil {
			return resource.Quantity{}, false
		}
		if resourceOf == corev1.ResourceMemory {
			return memoryOf(u.Memory), true
		}
		return diskOf(p, u, measuredBy(s, dedicated), resourceOf), true
	}
	unknown := func(a, b *corev1.Pod) int { return trueFirst(usage[a.UID] == nil, usage[b.UID] == nil) }
	exceeds := func(a, b *corev1.Pod) int {
		x, okx := used(a)
		y, oky := used(b)
		if !okx || !oky {
			return unknown(a, b)
		}
		return trueFirst(x.Cmp(requestOf(a, resourceOf)) > 0, y.Cmp(requestOf(b, resourceOf)) > 0)
	}
	priority := func(a, b *corev1.Pod) int {
		return cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b))
	}
	above := func(a, b *corev1.Pod) int {
		x, okx := used(a)
		y, oky := used(b)
		if !okx || !oky {
			return unknown(a, b)
		}
		x.Sub(requestOf(a, resourceOf))
		y.Sub(requestOf(b, resourceOf))
		return y.Cmp(x)
	}
	order := []func(a, b *corev1.Pod) int{exceeds, priority, above}
	if resourceOf == resourcePIDs {
		order = []func(a, b *corev1.Pod) int{priority, unknown, func(a, b *corev1.Pod) int {
			return cmp.Compare(processesOf(usage[b.UID]), processesOf(usage[a.UID]))
		}}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		for _, f := range order {
			if c := f(a, b); c != 0 {
				return c
			}
		}
		return 0
	})
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func requestOf(p *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	if name == resourceInodes {
		return resource.Quantity{} // nobody can request them
	}
	return resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})[name]
}

func memoryOf(m *statsv1alpha1.MemoryStats) resource.Quantity {
	if m == nil || m.WorkingSetBytes == nil {
		return resource.Quantity{Format: resource.BinarySI}
	}
	return *resource.NewQuantity(int64(*m.WorkingSetBytes), resource.BinarySI)
}

func processesOf(u *statsv1alpha1.PodStats) uint64 {
	if u == nil || u.ProcessStats == nil || u.ProcessStats.ProcessCount == nil {
		return 0
	}
	return *u.ProcessStats.ProcessCount
}

// bytesOf and inodesOf are 0 for what is not known.
func bytesOf(f *statsv1alpha1.FsStats) int64 {
	if f == nil || f.UsedBytes == nil {
		return 0
	}
	return int64(*f.UsedBytes)
}

func inodesOf(f *statsv1alpha1.FsStats) int64 {
	if f == nil || f.InodesUsed == nil {
		return 0
	}
	return int64(*f.InodesUsed)
}

func diskOf(p *corev1.Pod, u *statsv1alpha1.PodStats, m measured, name corev1.ResourceName) resource.Quantity {
	count, format := bytesOf, resource.BinarySI
	if name == resourceInodes {
		count, format = inodesOf, resource.DecimalSI
	}
	var sum int64
	for i := range u.Containers {
		if m.rootfs {
			sum += count(u.Containers[i].Rootfs)
		}
		if m.logs {
			sum += count(u.Containers[i].Logs)
		}
	}
	if m.volumes {
		for i := range u.VolumeStats {
			if isLocal(p, u.VolumeStats[i].Name) {
				sum += count(&u.VolumeStats[i].FsStats)
			}
		}
	}
	return *resource.NewQuantity(sum, format)
}

// isLocal says whether a volume of the pod is on the node's disk and goes with the pod.
func isLocal(p *corev1.Pod, name string) bool {
	i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	return i >= 0 && IsLocal(&p.Spec.Volumes[i])
}

// IsLocal says whether a volume is on the node's disk and goes with its pod, so that it counts as the pod's local storage.
func IsLocal(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}

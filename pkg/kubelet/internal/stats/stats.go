// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package stats says what the node, its pods and their containers use, as /stats/summary and /metrics/resource tell it.
// Touch it when a figure there is wrong or missing.
package stats

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// Usage reads what the groups of pods and containers use. The error matches fs.ErrNotExist if there is no such group.
type Usage interface {
	// Pods is of all pods together.
	Pods() (cgroup.Stats, error)
	Pod(uid types.UID) (cgroup.Stats, error)
	Container(pod *corev1.Pod, id string) (cgroup.Stats, error)
}

// Config is what a Collector is made from; all fields are required.
type Config struct {
	NodeName string
	// RootDir is on the file system whose figures are the node's.
	RootDir string
	// NetNS is the path of the node's network namespace. Default "": the process's own.
	NetNS string
	Clock clock.PassiveClock
	// Pods are those of the node, with their status.
	Pods func() []*corev1.Pod
	// Observed is what the engine has of each pod.
	Observed func() map[types.UID]*observed.Pod
	// Usage is nil while groups cannot be read yet.
	Usage func() Usage
	// Volumes is what was last found of a pod's volumes.
	Volumes func(types.UID) []statsv1alpha1.VolumeStats
	// Layer is what was last found of what a container has written, ImageFs of the engine's file system; nil while it is not known.
	Layer   func(id string) (Layer, bool)
	ImageFs func() *statsv1alpha1.FsStats
}

// Collector is safe for concurrent use.
type Collector struct {
	cfg   Config
	rates rates
}

// New returns a Collector.
func New(cfg Config) *Collector { return &Collector{cfg: cfg} }

// Summary reads all figures; with onlyCPUAndMemory the others are left out.
func (s *Collector) Summary(_ context.Context, onlyCPUAndMemory bool) (*statsv1alpha1.Summary, error) {
	engine := s.cfg.Observed()
	now := s.cfg.Clock.Now()
	sum := &statsv1alpha1.Summary{Node: s.nodeStats(now, onlyCPUAndMemory), Pods: []statsv1alpha1.PodStats{}}
	var disks disks
	if !onlyCPUAndMemory {
		if disks.images = s.cfg.ImageFs(); disks.images != nil {
			sum.Node.Runtime = &statsv1alpha1.RuntimeStats{ImageFs: disks.images, ContainerFs: disks.images}
		}
		disks.node = sum.Node.Fs
	}
	if c, ok := s.process(now); ok {
		sum.Node.SystemContainers = append(sum.Node.SystemContainers, c)
	}
	usage := s.cfg.Usage()
	if usage == nil {
		return sum, nil
	}
	keep := map[string]bool{"node": true, statsv1alpha1.SystemContainerKubelet: true}
	if u, err := usage.Pods(); err == nil {
		c := statsv1alpha1.ContainerStats{Name: statsv1alpha1.SystemContainerPods, StartTime: sum.Node.StartTime}
		keep["pods"] = true
		c.CPU, c.Memory, c.Swap, c.IO = s.cpu("pods", u, now), Memory(u, now), swap(u, now), input(u.IOPressure, now)
		sum.Node.SystemContainers = append(sum.Node.SystemContainers, c)
	}
	for _, pod := range s.cfg.Pods() {
		obs := engine[pod.UID]
		if obs.Sandbox() != nil || len(obs.Alive()) > 0 {
			sum.Pods = append(sum.Pods, s.podStats(usage, pod, obs, disks, keep, now, onlyCPUAndMemory))
		}
	}
	s.rates.retain(keep)
	return sum, nil
}

// disks are the file systems that pods write to; nil where they are not known.
type disks struct{ node, images *statsv1alpha1.FsStats }

// podStats reads the figures of a pod, and notes in keep whose counters it has read.
func (s *Collector) podStats(
	usage Usage, pod *corev1.Pod, obs *observed.Pod, disks disks, keep map[string]bool, now time.Time, onlyCPUAndMemory bool,
) statsv1alpha1.PodStats {
	ps := statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}}
	if pod.Status.StartTime != nil {
		ps.StartTime = *pod.Status.StartTime
	}
	// Without a group of the pod there is none of a container, and asking must not make one.
	u, gerr := usage.Pod(pod.UID)
	if gerr == nil {
		key := string(pod.UID)
		keep[key] = true
		ps.CPU, ps.Memory, ps.Swap = s.cpu(key, u, now), Memory(u, now), swap(u, now)
		if !onlyCPUAndMemory {
			ps.ProcessStats, ps.IO = &statsv1alpha1.ProcessStats{ProcessCount: new(u.Processes)}, input(u.IOPressure, now)
		}
	}
	for _, c := range obs.Alive() {
		if spec, _ := podspec.Find(pod, c.Name); spec == nil || c.State != container.StateRunning {
			continue
		}
		cs := statsv1alpha1.ContainerStats{Name: c.Name, StartTime: metav1.NewTime(c.StartedAt)}
		if gerr == nil {
			if u, err := usage.Container(pod, c.ID); err == nil {
				keep[c.ID] = true
				cs.CPU, cs.Memory, cs.Swap = s.cpu(c.ID, u, now), Memory(u, now), swap(u, now)
				if !onlyCPUAndMemory {
					cs.IO = input(u.IOPressure, now)
				}
			}
		}
		if !onlyCPUAndMemory {
			cs.Rootfs, cs.Logs = s.rootfs(c.ID, disks.images), logFiles(c.LogPath, now)
		}
		ps.Containers = append(ps.Containers, cs)
	}
	if onlyCPUAndMemory {
		return ps
	}
	if sb := obs.Sandbox(); sb != nil && sb.Network != container.NamespaceNode {
		ps.Network = interfaces("/proc/"+strconv.Itoa(sb.Pid)+"/net/dev", now)
	}
	ps.VolumeStats = s.cfg.Volumes(pod.UID)
	ps.EphemeralStorage = ephemeralStorage(pod, &ps, disks.node)
	return ps
}

// rootfs is what a container has written, on the file system of images; nil if that was not counted yet.
func (s *Collector) rootfs(id string, images *statsv1alpha1.FsStats) *statsv1alpha1.FsStats {
	layer, known := s.cfg.Layer(id)
	if !known {
		return nil
	}
	fs := &statsv1alpha1.FsStats{Time: metav1.NewTime(layer.Time), UsedBytes: new(uint64(max(layer.Rootfs, 0)))}
	if images != nil {
		fs.AvailableBytes, fs.CapacityBytes = images.AvailableBytes, images.CapacityBytes
		fs.Inodes, fs.InodesFree = images.Inodes, images.InodesFree
	}
	return fs
}

// ephemeralStorage sums up what a pod takes of the node's disk that goes with it, as far as it is known: what its containers have
// written, their logs, and volumes that are local. It is nil if the node's file system is not known.
func ephemeralStorage(pod *corev1.Pod, ps *statsv1alpha1.PodStats, node *statsv1alpha1.FsStats) *statsv1alpha1.FsStats {
	if node == nil {
		return nil
	}
	sum := &statsv1alpha1.FsStats{
		Time: node.Time, AvailableBytes: node.AvailableBytes, CapacityBytes: node.CapacityBytes, Inodes: node.Inodes, InodesFree: node.InodesFree,
	}
	plus := func(a, b *uint64) *uint64 {
		if a == nil || b == nil {
			return cmp.Or(a, b)
		}
		return new(*a + *b)
	}
	add := func(fs *statsv1alpha1.FsStats) {
		if fs != nil {
			sum.UsedBytes, sum.InodesUsed = plus(sum.UsedBytes, fs.UsedBytes), plus(sum.InodesUsed, fs.InodesUsed)
		}
	}
	for i := range ps.Containers {
		add(ps.Containers[i].Rootfs)
		add(ps.Containers[i].Logs)
	}
	for i := range ps.VolumeStats {
		v := &ps.VolumeStats[i]
		if slices.ContainsFunc(pod.Spec.Volumes, func(s corev1.Volume) bool { return s.Name == v.Name && eviction.IsLocal(&s) }) {
			add(&v.FsStats)
		}
	}
	return sum
}

func (s *Collector) cpu(key string, u cgroup.Stats, now time.Time) *statsv1alpha1.CPUStats {
	used := uint64(u.CPU.Nanoseconds())
	return &statsv1alpha1.CPUStats{
		Time: metav1.NewTime(now), UsageCoreNanoSeconds: &used, UsageNanoCores: s.rates.nanoCores(key, used, now), PSI: psi(u.CPUPressure),
	}
}

// Memory tells what a group uses; what is available only where there is a limit.
func Memory(u cgroup.Stats, now time.Time) *statsv1alpha1.MemoryStats {
	m := &statsv1alpha1.MemoryStats{Time: metav1.NewTime(now), UsageBytes: new(u.MemoryUsage), WorkingSetBytes: new(u.WorkingSet),
		RSSBytes: new(u.RSS), PageFaults: new(u.PageFaults), MajorPageFaults: new(u.MajorPageFaults), PSI: psi(u.MemoryPressure)}
	if limit := u.MemoryLimit; limit != nil {
		m.AvailableBytes = new(*limit - min(u.WorkingSet, *limit))
	}
	return m
}

// swap is nil where the kernel does not count it.
func swap(u cgroup.Stats, now time.Time) *statsv1alpha1.SwapStats {
	if u.Swap == nil {
		return nil
	}
	st := &statsv1alpha1.SwapStats{Time: metav1.NewTime(now), SwapUsageBytes: u.Swap}
	if u.SwapLimit != nil {
		st.SwapAvailableBytes = new(*u.SwapLimit - min(*u.Swap, *u.SwapLimit))
	}
	return st
}

// input is how tasks have waited for disks, nil where the kernel does not tell.
func input(p *cgroup.Pressure, now time.Time) *statsv1alpha1.IOStats {
	if p == nil {
		return nil
	}
	return &statsv1alpha1.IOStats{Time: metav1.NewTime(now), PSI: psi(p)}
}

// psi is nil where the kernel does not tell. The totals are in microseconds, as upstream has them by cAdvisor; its types say
// nanoseconds.
func psi(p *cgroup.Pressure) *statsv1alpha1.PSIStats {
	if p == nil {
		return nil
	}
	data := func(s cgroup.Stall) statsv1alpha1.PSIData {
		return statsv1alpha1.PSIData{Total: uint64(s.Total.Microseconds()), Avg10: s.Avg10, Avg60: s.Avg60, Avg300: s.Avg300}
	}
	return &statsv1alpha1.PSIStats{Full: data(p.Full), Some: data(p.Some)}
}

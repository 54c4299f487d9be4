// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package stats says what the node, its pods and their containers use, as /stats/summary and /metrics/resource tell it.
// Touch it when a figure there is wrong or missing.
package stats

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
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
	Clock   clock.PassiveClock
	// Pods are those of the node, with their status.
	Pods func() []*corev1.Pod
	// Observed is what the engine has of each pod.
	Observed func() map[types.UID]*observed.Pod
	// Usage is nil while groups cannot be read yet.
	Usage func() Usage
	// Volumes is what was last found of a pod's volumes.
	Volumes func(types.UID) []statsv1alpha1.VolumeStats
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
	usage := s.cfg.Usage()
	if usage == nil {
		return sum, nil
	}
	keep := map[string]bool{"node": true}
	if u, err := usage.Pods(); err == nil {
		c := statsv1alpha1.ContainerStats{Name: statsv1alpha1.SystemContainerPods, StartTime: sum.Node.StartTime}
		keep["pods"] = true
		c.CPU, c.Memory, c.Swap = s.cpu("pods", u, now), Memory(u, 0, now), swap(u, now)
		sum.Node.SystemContainers = append(sum.Node.SystemContainers, c)
	}
	for _, pod := range s.cfg.Pods() {
		obs := engine[pod.UID]
		if obs.Sandbox() != nil || len(obs.Alive()) > 0 {
			sum.Pods = append(sum.Pods, s.podStats(usage, pod, obs, keep, now, onlyCPUAndMemory))
		}
	}
	s.rates.retain(keep)
	return sum, nil
}

// podStats reads the figures of a pod, and notes in keep whose counters it has read.
func (s *Collector) podStats(
	usage Usage, pod *corev1.Pod, obs *observed.Pod, keep map[string]bool, now time.Time, onlyCPUAndMemory bool,
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
		ps.CPU, ps.Memory, ps.Swap = s.cpu(key, u, now), Memory(u, 0, now), swap(u, now)
		if !onlyCPUAndMemory {
			ps.ProcessStats = &statsv1alpha1.ProcessStats{ProcessCount: new(u.Processes)}
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
				cs.CPU, cs.Memory, cs.Swap = s.cpu(c.ID, u, now), Memory(u, c.Resources.MemoryBytes, now), swap(u, now)
			}
		}
		if !onlyCPUAndMemory {
			cs.Logs = logFiles(c.LogPath, now)
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
	return ps
}

func (s *Collector) cpu(key string, u cgroup.Stats, now time.Time) *statsv1alpha1.CPUStats {
	used := uint64(u.CPU.Nanoseconds())
	return &statsv1alpha1.CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: &used, UsageNanoCores: s.rates.nanoCores(key, used, now)}
}

// Memory tells what a group uses; what is available only where there is a limit, in bytes.
func Memory(u cgroup.Stats, limit int64, now time.Time) *statsv1alpha1.MemoryStats {
	m := &statsv1alpha1.MemoryStats{Time: metav1.NewTime(now), UsageBytes: new(u.MemoryUsage), WorkingSetBytes: new(u.WorkingSet),
		RSSBytes: new(u.RSS), PageFaults: new(u.PageFaults), MajorPageFaults: new(u.MajorPageFaults)}
	if limit > 0 {
		m.AvailableBytes = new(uint64(limit) - min(u.WorkingSet, uint64(limit)))
	}
	return m
}

// swap is nil where the kernel does not count it.
func swap(u cgroup.Stats, now time.Time) *statsv1alpha1.SwapStats {
	if u.Swap == nil {
		return nil
	}
	return &statsv1alpha1.SwapStats{Time: metav1.NewTime(now), SwapUsageBytes: u.Swap}
}

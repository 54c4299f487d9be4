// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podusage measures what one pod takes of its node, as eviction asks for it. Touch it when eviction is to weigh
// something else.
package podusage

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
)

// Meter measures pods; all fields are required but Groups. Safe for concurrent use.
type Meter struct {
	// Observe returns what the engine has of a pod; nil if it has nothing.
	Observe func(context.Context, types.UID) (*observed.Pod, error)
	// Groups are the cgroups of pods and containers; nil if they are not known.
	Groups stats.Usage
	// Disk is what a container has written.
	Disk func(ctx context.Context, id string) (container.DiskUsage, error)
	// Volumes measures the volumes of a pod that are on disk and go with it.
	Volumes func(ctx context.Context, pod *corev1.Pod) (map[string]diskusage.Usage, error)
	Clock   clock.PassiveClock
}

// Measure returns memory and processes of a pod, and what scope says. Beside an error it is what could be counted until then.
func (m *Meter) Measure(ctx context.Context, pod *corev1.Pod, scope eviction.Scope) (*statsv1alpha1.PodStats, error) {
	obs, err := m.Observe(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	now := m.Clock.Now()
	ps := &statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}}
	grouped := false
	if m.Groups != nil {
		if u, err := m.Groups.Pod(pod.UID); err == nil {
			grouped = true
			ps.Memory, ps.ProcessStats = stats.Memory(u, now), &statsv1alpha1.ProcessStats{ProcessCount: new(u.Processes)}
		}
	}
	var errs []error
	for spec := range podspec.Containers(pod) {
		if c := obs.Latest(spec.Name); c != nil {
			cs, err := m.container(ctx, pod, c, grouped, scope.Containers, now)
			ps.Containers, errs = append(ps.Containers, cs), append(errs, err)
		}
	}
	if scope.Volumes {
		volumes, err := m.Volumes(ctx, pod)
		errs = append(errs, err)
		for name, u := range volumes {
			ps.VolumeStats = append(ps.VolumeStats, statsv1alpha1.VolumeStats{Name: name, FsStats: statsv1alpha1.FsStats{
				Time: metav1.NewTime(now), UsedBytes: new(uint64(u.Bytes)), InodesUsed: new(uint64(u.Inodes)),
			}})
		}
	}
	return ps, errors.Join(errs...)
}

// container measures a container: its memory if it runs and its groups are known, and its disk if that is asked for.
func (m *Meter) container(ctx context.Context, pod *corev1.Pod, c *container.Container, grouped, disk bool, now time.Time) (statsv1alpha1.ContainerStats, error) {
	cs := statsv1alpha1.ContainerStats{Name: c.Name}
	if grouped && c.State == container.StateRunning {
		if u, err := m.Groups.Container(pod, c.ID); err == nil {
			cs.Memory = stats.Memory(u, now)
		}
	}
	if !disk {
		return cs, nil
	}
	u, err := m.Disk(ctx, c.ID)
	if errors.Is(err, container.ErrNotFound) {
		return cs, nil
	}
	if err != nil {
		return cs, err
	}
	used := func(bytes int64) *statsv1alpha1.FsStats {
		return &statsv1alpha1.FsStats{Time: metav1.NewTime(now), UsedBytes: new(uint64(max(bytes, 0)))}
	}
	cs.Rootfs, cs.Logs = used(u.Rootfs), used(u.Log)
	return cs, nil
}

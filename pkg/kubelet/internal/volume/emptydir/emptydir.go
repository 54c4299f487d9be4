// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package emptydir is the volume that starts empty and goes with its pod, on disk, in memory or in huge pages; touch it to support
// another medium.
package emptydir

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// EmptyDir is the plugin.
type EmptyDir struct {
	Mounts mount.Interface
	// NodeAllocatable limits volumes in memory; nil means nothing does.
	NodeAllocatable func() corev1.ResourceList
}

// Name implements plugin.Plugin.
func (e *EmptyDir) Name() string { return "kubernetes.io/empty-dir" }

// Supports implements plugin.Plugin.
func (e *EmptyDir) Supports(v *corev1.Volume) bool { return v.EmptyDir != nil }

// HostPath implements plugin.Plugin.
func (e *EmptyDir) HostPath(m plugin.Mount) string { return m.Dir }

// ReadOnly implements plugin.Plugin.
func (e *EmptyDir) ReadOnly(plugin.Mount) bool { return false }

// SetUp implements plugin.Plugin. What containers did to an existing volume is left alone.
func (e *EmptyDir) SetUp(_ context.Context, m plugin.Mount) error {
	switch medium := m.Volume.EmptyDir.Medium; {
	case medium == corev1.StorageMediumDefault:
		return onDisk(m)
	case medium == corev1.StorageMediumMemory:
		return InMemory(e.Mounts, m, e.size(m))
	case isHugePages(medium):
		return e.hugePages(m)
	default:
		return fmt.Errorf("emptyDir medium %q is not supported by this kubelet", medium)
	}
}

// onDisk prepares the directory under another name, so that it is complete once it exists.
func onDisk(m plugin.Mount) error {
	if _, err := os.Lstat(m.Dir); err == nil || !os.IsNotExist(err) {
		return err
	}
	prepared := m.Dir + "~new"
	if err := os.RemoveAll(prepared); err != nil {
		return err
	}
	if err := os.Mkdir(prepared, 0o700); err != nil {
		return err
	}
	if g := m.FSGroup(); g != nil {
		if err := os.Lchown(prepared, -1, int(*g)); err != nil {
			return err
		}
	}
	if err := os.Chmod(prepared, mode(m)); err != nil {
		return err
	}
	return os.Rename(prepared, m.Dir)
}

// InMemory mounts a tmpfs of at most size bytes (0: no limit of its own) as the volume if it is not there yet. Secrets
// are kept in one too, so that they never reach a disk.
func InMemory(mounts mount.Interface, m plugin.Mount, size int64) error {
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	mounted, err := mounts.IsMountPoint(m.Dir)
	if err != nil || mounted {
		return err
	}
	var gid int64
	if g := m.FSGroup(); g != nil {
		gid = *g
	}
	return mounts.Tmpfs(m.Dir, mode(m)|fs.ModeSticky, gid, size)
}

func mode(m plugin.Mount) fs.FileMode {
	if m.FSGroup() != nil {
		return 0o777 | fs.ModeSetgid
	}
	return 0o777
}

// size is the smallest of the volume's limit, the pod's memory limit (if all its containers have one) and what the
// node has for pods. See KEP-1967.
func (e *EmptyDir) size(m plugin.Mount) int64 {
	var size int64
	limit := func(n int64) {
		if n > 0 && (size == 0 || n < size) {
			size = n
		}
	}
	if e.NodeAllocatable != nil {
		list := e.NodeAllocatable()
		limit(list.Memory().Value())
	}
	if allLimited(m.Pod) {
		list := resource.PodLimits(m.Pod, resource.PodResourcesOptions{})
		limit(list.Memory().Value())
	}
	if q := m.Volume.EmptyDir.SizeLimit; q != nil {
		limit(q.Value())
	}
	return size
}

func allLimited(pod *corev1.Pod) bool {
	if pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero() {
		return true
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Resources.Limits.Memory().IsZero() {
			return false
		}
	}
	return len(pod.Spec.Containers) > 0
}

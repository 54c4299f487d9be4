// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package downwardapi is the volume that tells a pod about itself; touch it when that source gains a field.
package downwardapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"minik8s.io/minik8s/pkg/kubelet/internal/downward"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/atomicwriter"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/emptydir"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// DownwardAPI is the plugin.
type DownwardAPI struct {
	Mounts mount.Interface
	// NodeAllocatable stands in for missing limits.
	NodeAllocatable func() corev1.ResourceList
}

// Name implements plugin.Plugin.
func (d *DownwardAPI) Name() string { return "kubernetes.io/downward-api" }

// Supports implements plugin.Plugin.
func (d *DownwardAPI) Supports(v *corev1.Volume) bool { return v.DownwardAPI != nil }

// HostPath implements plugin.Plugin.
func (d *DownwardAPI) HostPath(m plugin.Mount) string { return m.Dir }

// ReadOnly implements plugin.Plugin.
func (d *DownwardAPI) ReadOnly(plugin.Mount) bool { return true }

// SetUp implements plugin.Plugin.
func (d *DownwardAPI) SetUp(_ context.Context, m plugin.Mount) error {
	s := m.Volume.DownwardAPI
	files, err := Files(m, s.Items, s.DefaultMode, d.NodeAllocatable)
	if err != nil {
		return err
	}
	if err := emptydir.InMemory(d.Mounts, m, 0); err != nil {
		return err
	}
	return m.Write(files)
}

// Files returns the files that items ask for.
func Files(m plugin.Mount, items []corev1.DownwardAPIVolumeFile, defaultMode *int32, allocatable func() corev1.ResourceList) (map[string]atomicwriter.File, error) {
	ips := downward.IPs{Pod: m.PodIPs}
	for _, ip := range m.Pod.Status.HostIPs {
		ips.Host = append(ips.Host, ip.IP)
	}
	files := map[string]atomicwriter.File{}
	var errs []error
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = downward.Field(m.Pod, item.FieldRef.FieldPath, ips)
		case item.ResourceFieldRef != nil:
			var list corev1.ResourceList
			if allocatable != nil {
				list = allocatable()
			}
			value, err = downward.Resource(m.Pod, item.ResourceFieldRef.ContainerName, item.ResourceFieldRef, list)
		default:
			err = fmt.Errorf("downward API item %q has no source", item.Path)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files[item.Path] = atomicwriter.File{Data: []byte(value), Mode: plugin.Mode(item.Mode, defaultMode)}
	}
	return files, utilerrors.NewAggregate(errs)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nfs is the volume that an NFS server exports. Touch it when one is to be mounted otherwise.
//
// Nothing here looks at a directory that is mounted: a server that is away would hold it up for good.
package nfs

import (
	"context"
	"net/netip"
	"os"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// Folder is what the kind is in paths.
const Folder = "kubernetes.io~nfs"

// NFS is the plugin.
type NFS struct{ Mounts mount.Interface }

// Name implements plugin.Plugin.
func (*NFS) Name() string { return "kubernetes.io/nfs" }

// Supports implements plugin.Plugin.
func (*NFS) Supports(v *corev1.Volume) bool { return v.NFS != nil }

// HostPath implements plugin.Plugin.
func (*NFS) HostPath(m plugin.Mount) string { return m.Dir }

// ReadOnly implements plugin.Plugin.
func (*NFS) ReadOnly(m plugin.Mount) bool { return m.Volume.NFS.ReadOnly }

// SetUp implements plugin.Plugin.
func (p *NFS) SetUp(ctx context.Context, m plugin.Mount) error {
	return Mount(ctx, p.Mounts, m.Volume.NFS, nil, m.Dir)
}

// Mount mounts an export on dir, which is made, with options of mount(8). One that is mounted there already stays.
func Mount(ctx context.Context, mounts mount.Interface, source *corev1.NFSVolumeSource, options []string, dir string) error {
	mounted, err := mounts.Mounted(dir)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return mounts.Remote(ctx, "nfs", export(source), dir, arguments(source, options))
}

// export is what mount.nfs is told to mount.
func export(source *corev1.NFSVolumeSource) string {
	server := source.Server
	if ip, err := netip.ParseAddr(server); err == nil && ip.Is6() {
		server = "[" + server + "]"
	}
	return server + ":" + source.Path
}

// arguments are the options of the mount.
func arguments(source *corev1.NFSVolumeSource, options []string) []string {
	var out []string
	if source.ReadOnly {
		out = append(out, "ro")
	}
	return append(out, options...)
}

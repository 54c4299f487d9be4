// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nfs

import (
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func TestSetUp(t *testing.T) {
	for name, tc := range map[string]struct {
		source corev1.NFSVolumeSource
		want   string
	}{
		"writable":  {corev1.NFSVolumeSource{Server: "nfs.example.com", Path: "/a b"}, "nfs nfs.example.com:/a b"},
		"read-only": {corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/a", ReadOnly: true}, "nfs 192.0.2.1:/a ro"},
		"IPv6":      {corev1.NFSVolumeSource{Server: "2001:db8::1", Path: "/a"}, "nfs [2001:db8::1]:/a"},
	} {
		t.Run(name, func(t *testing.T) {
			mounts := &mount.Fake{NoServer: errors.New("away")}
			p := &NFS{Mounts: mounts}
			m := plugin.Mount{Volume: &corev1.Volume{VolumeSource: corev1.VolumeSource{NFS: &tc.source}}, Dir: filepath.Join(t.TempDir(), "v")}
			if !p.Supports(m.Volume) || p.ReadOnly(m) != tc.source.ReadOnly || p.HostPath(m) != m.Dir {
				t.Errorf("%+v", m)
			}
			if err := p.SetUp(t.Context(), m); err == nil {
				t.Error("it is mounted from a server that is away")
			}
			mounts.NoServer = nil
			if err := p.SetUp(t.Context(), m); err != nil || mounts.Remotes[m.Dir] != tc.want {
				t.Errorf("mounted %q, %v; want %q", mounts.Remotes[m.Dir], err, tc.want)
			}
			mounts.NoServer = errors.New("away")
			if err := p.SetUp(t.Context(), m); err != nil {
				t.Errorf("a volume that is mounted: %v", err)
			}
		})
	}
}

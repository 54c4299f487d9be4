// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/machinetest"
)

// TestKernel goes through the life of volumes in memory with real mounts.
func TestKernel(t *testing.T) {
	machinetest.Mounts(t)
	f := setUp(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte("v")}})
	m, err := newManager(Config{RootDir: f.root, Client: f.client}, mount.Linux{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.objects.Stop()
	pod := podWith(
		volumeOf("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: new(int32(0o400))}}),
		volumeOf("mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}),
		volumeOf("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
	)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(2345))}
	t.Cleanup(func() {
		if err := m.Unmount(f.ctx, pod.UID); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if err := m.Mount(f.ctx, pod, nil); err != nil {
			t.Fatal(err)
		}
	}
	volumes := filepath.Join(m.PodDir("u"), "volumes")
	for path, mode := range map[string]fs.FileMode{
		"kubernetes.io~secret/secret":          fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o777,
		"kubernetes.io~secret/secret/..data/k": 0o440,
		"kubernetes.io~empty-dir/mem":          fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o777,
		"kubernetes.io~empty-dir/disk":         fs.ModeDir | fs.ModeSetgid | 0o777,
	} {
		info, err := os.Stat(filepath.Join(volumes, path))
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(volumes, path), &st); err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode || st.Gid != 2345 {
			t.Errorf("%s: %v group %d, want %v group 2345", path, info.Mode(), st.Gid, mode)
		}
	}
	c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "secret", MountPath: "/k", SubPath: "k"}, {Name: "mem", MountPath: "/m", SubPath: "a/b"}}}
	mounts, err := m.ContainerMounts(f.ctx, plugin.Container{Pod: pod, Spec: c})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(mounts[0].HostPath); err != nil || string(data) != "v" {
		t.Errorf("subPath holds %q, %v", data, err)
	}
	if list, err := (mount.Linux{}).Under(f.root); err != nil || len(list) != 4 {
		t.Errorf("mounts %v, %v; want 4", list, err)
	}
	// What users leave behind must not lead the removal elsewhere.
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "keep"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(volumes, "kubernetes.io~empty-dir/disk/link")); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(f.ctx, pod.UID); err != nil {
		t.Fatal(err)
	}
	if list, err := (mount.Linux{}).Under(f.root); err != nil || len(list) != 0 {
		t.Errorf("mounts %v, %v remain", list, err)
	}
	if entries, err := os.ReadDir(m.PodDir("u")); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v remain", entries, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "keep")); err != nil {
		t.Errorf("a file outside of the volume is gone: %v", err)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/machinetest"
)

func imagePod() *corev1.Pod {
	return podWith(volumeOf("i", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "x:1"}}))
}

func mounting(sub string) *corev1.Container {
	return &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "i", MountPath: "/i", SubPath: sub}}}
}

var imageOne = map[string]*container.Image{"i": {ID: "sha256:1"}}

func TestImage(t *testing.T) {
	f := setUp(t)
	var layers []string
	var fail error
	f.images.Layers = func(context.Context, string) ([]string, error) { return layers, fail }
	pod := imagePod()
	if err := f.Mount(f.ctx, pod, nil); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(f.root, "pods/u/volumes/kubernetes.io~image/i/sha256-1")
	tests := []struct {
		name   string
		sub    string
		layers []string
		fail   error
		images map[string]*container.Image
		want   container.Mount
		err    string
	}{
		{name: "not there", err: `failed to mount image volume "i" into container "c": its image is not there`},
		{name: "engine that says nothing", images: imageOne, fail: errors.New("no layers"), err: `failed to mount image volume "i" into container "c": no layers`},
		{name: "empty", images: imageOne, want: container.Mount{HostPath: place, ContainerPath: "/i", ReadOnly: true}},
		{name: "by the engine", images: imageOne, fail: errors.ErrUnsupported, sub: "a/b",
			want: container.Mount{Image: "sha256:1", SubPath: "a/b", ContainerPath: "/i", ReadOnly: true}},
		{name: "by the engine, elsewhere", images: imageOne, fail: errors.ErrUnsupported, sub: "../b",
			err: `failed to mount image volume "i" into container "c": subPath must not contain '..': "../b"`},
		{name: "by the kernel", images: imageOne, layers: []string{"/2", "/1"}, want: container.Mount{HostPath: place, ContainerPath: "/i", ReadOnly: true}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			layers, fail = tc.layers, tc.fail
			var o operations
			f.config.Operations = &o
			got, err := f.ContainerMounts(f.ctx, plugin.Container{Pod: pod, Spec: mounting(tc.sub), Images: tc.images})
			if want := []string{fmt.Sprint("image ", tc.err == "")}; !slices.Equal(o.told(), want) {
				t.Errorf("not told: %q", want)
			}
			if tc.err != "" {
				if _, is := errors.AsType[*plugin.EngineError](err); !is || err.Error() != tc.err {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff([]container.Mount{tc.want}, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
			if used, err := f.Images(); err != nil || !slices.Equal(used, []string{"sha256:1"}) {
				t.Errorf("images in use: %q, %v", used, err)
			}
		})
	}
	if diff := cmp.Diff(map[string][]string{place: {"/2", "/1"}}, f.fake.Layers); diff != "" {
		t.Error(diff)
	}
	if places := f.Places(pod); len(places) != 0 {
		t.Errorf("what an image takes is told as the pod's: %v", places)
	}
	if err := f.Unmount(f.ctx, pod.UID); err != nil {
		t.Fatal(err)
	}
	if used, err := f.Images(); err != nil || len(used) != 0 {
		t.Errorf("images in use by nobody: %q, %v", used, err)
	}
}

// TestKernelImage mounts an image of more layers than the kernel could be told the paths of.
func TestKernelImage(t *testing.T) {
	machinetest.Mounts(t)
	f := setUp(t)
	m, err := newManager(Config{RootDir: f.root, Client: f.client}, mount.Linux{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.objects.Stop()
	base := filepath.Join(t.TempDir(), strings.Repeat("a:b", 30))
	var layers []string
	for i := range 60 {
		dir := filepath.Join(base, fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"etc/top", fmt.Sprint("etc/", i)} {
			if err := os.WriteFile(filepath.Join(dir, name), fmt.Append(nil, i), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		layers = append(layers, dir)
	}
	if err := unix.Mknod(filepath.Join(layers[0], "etc/1"), unix.S_IFCHR, 0); err != nil { // removed by the topmost layer
		t.Fatal(err)
	}
	m.images.Layers = func(context.Context, string) ([]string, error) { return layers, nil }
	pod := imagePod()
	t.Cleanup(func() {
		if err := m.Unmount(f.ctx, pod.UID); err != nil {
			t.Error(err)
		}
	})
	var dir string
	for range 2 {
		mounts, err := m.ContainerMounts(f.ctx, plugin.Container{Pod: pod, Spec: mounting(""), Images: imageOne})
		if err != nil {
			t.Fatal(err)
		}
		dir = mounts[0].HostPath
	}
	for name, want := range map[string]string{"etc/top": "0", "etc/0": "0", "etc/59": "59"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "etc/1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that the image has no more: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing: %v", err)
	}
	if mounts, err := m.ContainerMounts(f.ctx, plugin.Container{Pod: pod, Spec: mounting("etc"), Images: imageOne}); err != nil {
		t.Error(err)
	} else if got, err := os.ReadFile(filepath.Join(mounts[0].HostPath, "7")); err != nil || string(got) != "7" {
		t.Errorf("subPath: %q, %v", got, err)
	}
	if mounts, err := m.ContainerMounts(f.ctx, plugin.Container{Pod: pod, Spec: mounting("absent"), Images: imageOne}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a subPath that the image has not: %v, %v", mounts, err)
	}
	if list, err := (mount.Linux{}).Under(f.root); err != nil || len(list) != 2 {
		t.Errorf("mounts %v, %v; want the image and its part", list, err)
	}
	if err := m.Unmount(f.ctx, pod.UID); err != nil {
		t.Fatal(err)
	}
	if list, err := (mount.Linux{}).Under(f.root); err != nil || len(list) != 0 {
		t.Errorf("mounts %v, %v remain", list, err)
	}
	if _, err := os.Stat(filepath.Join(layers[0], "etc/top")); err != nil {
		t.Errorf("a layer of the engine: %v", err)
	}
}

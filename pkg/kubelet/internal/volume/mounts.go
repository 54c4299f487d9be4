// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/subpath"
)

const openNonblock = unix.O_NONBLOCK

// ContainerMounts returns the mounts of a container in the order of its spec and binds its subPaths. Mount must have
// succeeded for the pod. Call it anew for every start of a container, because what a subPath names may have changed.
func (m *Manager) ContainerMounts(ctx context.Context, c plugin.Container) ([]container.Mount, error) {
	var list []container.Mount
	for i := range c.Spec.VolumeMounts {
		mnt, err := m.containerMount(ctx, c, i)
		if err != nil {
			return nil, err
		}
		list = append(list, mnt)
	}
	return list, nil
}

// ContainerDevices returns the devices of a container that are volumes. Mount must have succeeded for the pod.
func (m *Manager) ContainerDevices(pod *corev1.Pod, c *corev1.Container) ([]container.Device, error) {
	var list []container.Device
	for _, d := range c.VolumeDevices {
		v, p := m.find(pod, d.Name)
		if p == nil {
			return nil, fmt.Errorf("cannot find volume %q to pass into container %q", d.Name, c.Name)
		}
		block, is := p.(plugin.Block)
		if !is {
			return nil, fmt.Errorf("volume %q of container %q is no block device", d.Name, c.Name)
		}
		path, readOnly, err := block.Device(m.mount(pod, v, p, nil))
		if err != nil {
			return nil, fmt.Errorf("volume %q of container %q: %w", d.Name, c.Name, err)
		}
		device := container.Device{HostPath: path, ContainerPath: d.DevicePath, Permissions: "mrw"}
		if readOnly {
			device.Permissions = "mr"
		}
		list = append(list, device)
	}
	return list, nil
}

func (m *Manager) containerMount(ctx context.Context, c plugin.Container, index int) (container.Mount, error) {
	vm := &c.Spec.VolumeMounts[index]
	v, p := m.find(c.Pod, vm.Name)
	if p == nil {
		return container.Mount{}, fmt.Errorf("cannot find volume %q to mount into container %q", vm.Name, c.Spec.Name)
	}
	recursive, err := podspec.RecursiveReadOnly(vm, c.RecursiveReadOnly)
	if err != nil {
		return container.Mount{}, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	propagation, err := propagate(vm.MountPropagation)
	if err != nil {
		return container.Mount{}, err
	}
	source := m.mount(c.Pod, v, p, c.PodIPs)
	out := container.Mount{
		HostPath: p.HostPath(source), ContainerPath: vm.MountPath,
		ReadOnly: vm.ReadOnly || p.ReadOnly(source), RecursiveReadOnly: recursive, Propagation: propagation,
	}
	if !filepath.IsAbs(out.ContainerPath) {
		out.ContainerPath = "/" + out.ContainerPath
	}
	sub := vm.SubPath
	target := filepath.Join(m.subPathDir(c.Pod.UID), v.Name, c.Spec.Name, strconv.Itoa(index))
	if v.Image != nil {
		err := m.imageMount(ctx, source, c.Images[v.Name], sub, target, &out)
		if m.config.Operations != nil {
			m.config.Operations.ImageMounted(err)
		}
		if err != nil {
			err = fmt.Errorf("failed to mount image volume %q into container %q: %w", vm.Name, c.Spec.Name, err)
			return container.Mount{}, &plugin.EngineError{Err: err}
		}
		return out, nil
	}
	if sub != "" {
		prepare := func() error { return subpath.Prepare(m.mounts, out.HostPath, sub, target) }
		if err := m.answered(target, prepare); err != nil {
			return container.Mount{}, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", vm.Name, c.Spec.Name, err)
		}
		out.HostPath = target
	}
	return out, nil
}

// answerPatience is how long the file system of a volume may take to find something on it.
const answerPatience = 30 * time.Second

// answered does what may have to wait for a server that is away, and gives up after a while. What is still waited for from an earlier
// attempt is not begun again.
func (m *Manager) answered(what string, f func() error) error {
	m.mu.Lock()
	again := m.waiting[what]
	m.waiting[what] = true
	m.mu.Unlock()
	if again {
		return errors.New("the file system of the volume still does not answer")
	}
	done := make(chan error, 1)
	go func() {
		err := f()
		m.mu.Lock()
		delete(m.waiting, what)
		m.mu.Unlock()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-m.config.Clock.After(answerPatience):
		return fmt.Errorf("the file system of the volume has not answered within %s", answerPatience)
	}
}

// imageMount has a mount show an image, or what sub of it is, bound on target. Engines that mount images do that themselves.
func (m *Manager) imageMount(ctx context.Context, source plugin.Mount, img *container.Image, sub, target string, out *container.Mount) error {
	if img == nil {
		return errors.New("its image is not there")
	}
	dir, err := m.images.Mount(ctx, source, img.ID)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		out.HostPath, out.Image, out.SubPath = "", img.ID, sub
		return subpath.Check(sub)
	case err != nil:
		return err
	case sub == "":
		out.HostPath = dir
		return nil
	}
	out.HostPath = target
	return subpath.Bind(m.mounts, dir, sub, target)
}

// find returns a volume of the pod by name and its plugin, nil if there is none.
func (m *Manager) find(pod *corev1.Pod, name string) (*corev1.Volume, plugin.Plugin) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v, m.plugin(v)
		}
	}
	return nil, nil
}

func propagate(mode *corev1.MountPropagationMode) (string, error) {
	switch {
	case mode == nil, *mode == corev1.MountPropagationNone:
		return "", nil
	case *mode == corev1.MountPropagationHostToContainer:
		return "rslave", nil
	case *mode == corev1.MountPropagationBidirectional:
		return "rshared", nil
	}
	return "", fmt.Errorf("invalid MountPropagation mode: %q", *mode)
}

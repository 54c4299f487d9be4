// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package image is the volume that is the file system of an image (KEP-4639). Touch it to mount images of another kind.
//
// The image is found out when a container starts, as its own image is. Each that a volume has shown to a container of the pod is
// a directory in the volume's own, by the image's id: that says what must not be removed from the node, also to the next process.
package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// name is upstream's of the kind, folder what it is in paths.
const name, folder = "kubernetes.io/image", "kubernetes.io~image"

// Image is the plugin.
type Image struct {
	Mounts mount.Interface
	// Layers are the directories that make up a local image: see container.Runtime.
	Layers func(ctx context.Context, id string) ([]string, error)
}

// Name implements plugin.Plugin.
func (*Image) Name() string { return name }

// Supports implements plugin.Plugin.
func (*Image) Supports(v *corev1.Volume) bool { return v.Image != nil }

// HostPath implements plugin.Plugin.
func (*Image) HostPath(m plugin.Mount) string { return m.Dir }

// ReadOnly implements plugin.Plugin.
func (*Image) ReadOnly(plugin.Mount) bool { return true }

// SetUp implements plugin.Plugin. There is nothing to do before a container starts.
func (*Image) SetUp(context.Context, plugin.Mount) error { return nil }

// Mount makes a local image a directory of the node, and returns it. The error matches errors.ErrUnsupported if the engine has to
// mount the image; it is kept for the pod in either case.
func (p *Image) Mount(ctx context.Context, m plugin.Mount, id string) (string, error) {
	dir := filepath.Join(m.Dir, strings.Replace(id, ":", "-", 1))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	layers, err := p.Layers(ctx, id)
	if err != nil || len(layers) == 0 {
		return dir, err
	}
	mounted, err := p.Mounts.IsMountPoint(dir)
	if err != nil || mounted {
		return dir, err
	}
	return dir, p.Mounts.Overlay(layers, dir)
}

// InUse are the ids of the images that pods have volumes of. pods is the directory of the pods.
func InUse(pods string) ([]string, error) {
	list, err := os.ReadDir(pods)
	if err != nil {
		return nil, fmt.Errorf("listing pods on disk: %w", err)
	}
	var ids []string
	for _, pod := range list {
		if !pod.IsDir() {
			continue // somebody's file, which is no pod
		}
		volumes := filepath.Join(pods, pod.Name(), "volumes", folder)
		entries, err := names(volumes)
		if err != nil {
			return nil, err
		}
		for _, volume := range entries {
			images, err := names(filepath.Join(volumes, volume))
			if err != nil {
				return nil, err
			}
			for _, image := range images {
				ids = append(ids, strings.Replace(image, "-", ":", 1))
			}
		}
	}
	return ids, nil
}

// names are the directories in one that may be gone.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the image volumes of pods: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

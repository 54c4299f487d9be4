// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostpath is the volume that is a file or directory of the node; touch it when the API gains another type.
package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// HostPath is the plugin. It never changes owners: fsGroup does not apply to files of the node.
type HostPath struct {
	// Root is the kubelet's directory, which pods find by kubeletdir.Standard.
	Root string
}

// Name implements plugin.Plugin.
func (HostPath) Name() string { return "kubernetes.io/host-path" }

// Supports implements plugin.Plugin.
func (HostPath) Supports(v *corev1.Volume) bool { return v.HostPath != nil }

// HostPath implements plugin.Plugin.
func (h HostPath) HostPath(m plugin.Mount) string {
	return kubeletdir.Place(h.Root, m.Volume.HostPath.Path)
}

// ReadOnly implements plugin.Plugin.
func (HostPath) ReadOnly(plugin.Mount) bool { return false }

// SetUp implements plugin.Plugin: it checks the type and creates what the type says to.
func (h HostPath) SetUp(_ context.Context, m plugin.Mount) error {
	path, kind := h.HostPath(m), corev1.HostPathUnset
	if m.Volume.HostPath.Type != nil {
		kind = *m.Volume.HostPath.Type
	}
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	missing := err != nil
	// Without type upstream checks nothing and the container engine creates a missing directory.
	if missing && (kind == corev1.HostPathDirectoryOrCreate || kind == corev1.HostPathUnset) {
		return os.MkdirAll(path, 0o755)
	}
	if missing && kind == corev1.HostPathFileOrCreate {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("hostPath type check failed: %w", err)
		}
		return f.Close()
	}
	var ok bool
	var what string
	switch kind {
	case corev1.HostPathUnset:
		ok = true
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		ok, what = !missing && info.IsDir(), "directory"
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		ok, what = !missing && info.Mode().IsRegular(), "file"
	case corev1.HostPathSocket:
		ok, what = !missing && info.Mode().Type() == fs.ModeSocket, "socket file"
	case corev1.HostPathCharDev:
		ok, what = !missing && info.Mode().Type() == fs.ModeDevice|fs.ModeCharDevice, "character device"
	case corev1.HostPathBlockDev:
		ok, what = !missing && info.Mode().Type() == fs.ModeDevice, "block device"
	default:
		return fmt.Errorf("%s is an invalid volume type", kind)
	}
	if !ok {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", path, what)
	}
	return nil
}

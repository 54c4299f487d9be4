// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package secret is the volume that shows a secret as files in memory; touch it when that source gains a field.
package secret

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/emptydir"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// Secret is the plugin.
type Secret struct {
	Objects plugin.Objects
	Mounts  mount.Interface
}

// Name implements plugin.Plugin.
func (s *Secret) Name() string { return "kubernetes.io/secret" }

// Supports implements plugin.Plugin.
func (s *Secret) Supports(v *corev1.Volume) bool { return v.Secret != nil }

// HostPath implements plugin.Plugin.
func (s *Secret) HostPath(m plugin.Mount) string { return m.Dir }

// ReadOnly implements plugin.Plugin.
func (s *Secret) ReadOnly(plugin.Mount) bool { return true }

// SetUp implements plugin.Plugin.
func (s *Secret) SetUp(ctx context.Context, m plugin.Mount) error {
	v := m.Volume.Secret
	p := plugin.Projection{Items: v.Items, DefaultMode: v.DefaultMode, Optional: v.Optional}
	files, err := p.Secret(ctx, s.Objects, m.Pod.Namespace, v.SecretName)
	if err != nil {
		return err
	}
	if err := emptydir.InMemory(s.Mounts, m, 0); err != nil {
		return err
	}
	return m.Write(files)
}

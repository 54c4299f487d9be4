// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package configmap is the volume that shows a config map as files; touch it when that source gains a field.
package configmap

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// ConfigMap is the plugin.
type ConfigMap struct{ Objects plugin.Objects }

// Name implements plugin.Plugin.
func (c *ConfigMap) Name() string { return "kubernetes.io/configmap" }

// Supports implements plugin.Plugin.
func (c *ConfigMap) Supports(v *corev1.Volume) bool { return v.ConfigMap != nil }

// HostPath implements plugin.Plugin.
func (c *ConfigMap) HostPath(m plugin.Mount) string { return m.Dir }

// ReadOnly implements plugin.Plugin.
func (c *ConfigMap) ReadOnly(plugin.Mount) bool { return true }

// SetUp implements plugin.Plugin.
func (c *ConfigMap) SetUp(ctx context.Context, m plugin.Mount) error {
	s := m.Volume.ConfigMap
	p := plugin.Projection{Items: s.Items, DefaultMode: s.DefaultMode, Optional: s.Optional}
	files, err := p.ConfigMap(ctx, c.Objects, m.Pod.Namespace, s.Name)
	if err != nil {
		return err
	}
	return m.Write(files)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// Inline is the plugin of volumes that a pod's spec has itself, without a claim: they come and go with the pod (KEP-596).
type Inline struct{ CSI *CSI }

// Name implements plugin.Plugin.
func (Inline) Name() string { return kind }

// Supports implements plugin.Plugin.
func (Inline) Supports(v *corev1.Volume) bool { return v.CSI != nil }

// HostPath implements plugin.Plugin.
func (i Inline) HostPath(m plugin.Mount) string {
	return i.CSI.layout.target(m.Pod.UID, m.Volume.Name, false)
}

// ReadOnly implements plugin.Plugin.
func (Inline) ReadOnly(m plugin.Mount) bool { return ptr.Deref(m.Volume.CSI.ReadOnly, false) }

// SetUp implements plugin.Plugin.
func (i Inline) SetUp(ctx context.Context, m plugin.Mount) error {
	path := i.HostPath(m)
	if known, due := i.CSI.Due(m.Pod.UID, path); known && !due {
		return nil
	}
	_, err := i.CSI.setUp(ctx, m, ofPod(m.Pod, m.Volume))
	if errors.Is(err, plugin.ErrUnavailable) && i.CSI.Holds(m.Pod.UID, path) {
		return nil
	}
	return err
}

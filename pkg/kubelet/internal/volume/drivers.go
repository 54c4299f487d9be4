// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
)

// Drivers registers CSI drivers.
func (m *Manager) Drivers() pluginregistration.Handler { return m.csi.Registrar }

// VolumesInUse are those that must not be detached from the node, for its status.
func (m *Manager) VolumesInUse() []corev1.UniqueVolumeName { return m.csi.InUse() }

// Told says which of VolumesInUse the API server knows of: others are not mounted before.
func (m *Manager) Told(names []corev1.UniqueVolumeName) { m.csi.Told(names) }

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolume"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/registry"
)

var (
	specDocs   = corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()
	statusDocs = corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
)

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Status", "string", statusDocs["phase"]),
	registry.Column("Volume", "string", specDocs["volumeName"]),
	registry.Column("Capacity", "string", statusDocs["capacity"]),
	registry.Column("Access Modes", "string", statusDocs["accessModes"]),
	registry.Column("StorageClass", "string", "StorageClass of the pvc"),
	registry.Column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pvc"),
	registry.AgeColumn,
	registry.WideColumn("VolumeMode", "string", specDocs["volumeMode"]),
}

func row(c *corev1.PersistentVolumeClaim) []any {
	phase := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		q := c.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = q.String(), persistentvolume.AccessModes(c.Status.AccessModes)
	}
	class, _ := persistentvolumeclaim.Class(c)
	return []any{
		c.Name, phase, c.Spec.VolumeName, capacity, modes, class, orUnset(c.Spec.VolumeAttributesClassName),
		registry.Age(c.CreationTimestamp), orUnset(c.Spec.VolumeMode),
	}
}

func orUnset[T ~string](s *T) string {
	if s == nil {
		return "<unset>"
	}
	return string(*s)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolume

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolume"
	"minik8s.io/minik8s/pkg/registry"
)

var (
	specDocs   = corev1.PersistentVolumeSpec{}.SwaggerDoc()
	statusDocs = corev1.PersistentVolumeStatus{}.SwaggerDoc()
)

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Capacity", "string", specDocs["capacity"]),
	registry.Column("Access Modes", "string", specDocs["accessModes"]),
	registry.Column("Reclaim Policy", "string", specDocs["persistentVolumeReclaimPolicy"]),
	registry.Column("Status", "string", statusDocs["phase"]),
	registry.Column("Claim", "string", specDocs["claimRef"]),
	registry.Column("StorageClass", "string", "StorageClass of the pv"),
	registry.Column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pv"),
	registry.Column("Reason", "string", statusDocs["reason"]),
	registry.AgeColumn,
	registry.WideColumn("VolumeMode", "string", specDocs["volumeMode"]),
}

func row(v *corev1.PersistentVolume) []any {
	capacity := v.Spec.Capacity[corev1.ResourceStorage]
	phase := string(v.Status.Phase)
	if v.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	claim := ""
	if r := v.Spec.ClaimRef; r != nil {
		claim = r.Namespace + "/" + r.Name
	}
	class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]
	if !ok {
		class = v.Spec.StorageClassName
	}
	return []any{
		v.Name, capacity.String(), persistentvolume.AccessModes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase,
		claim, class, orUnset(v.Spec.VolumeAttributesClassName), v.Status.Reason, registry.Age(v.CreationTimestamp), orUnset(v.Spec.VolumeMode),
	}
}

func orUnset[T ~string](s *T) string {
	if s == nil {
		return "<unset>"
	}
	return string(*s)
}

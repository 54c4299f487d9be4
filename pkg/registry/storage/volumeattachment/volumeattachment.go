// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumeattachment serves VolumeAttachments: the wish to have a volume attached to a node, and what came of it.
// Touch it when their rules change.
package volumeattachment

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolume"
	"minik8s.io/minik8s/pkg/registry"
)

var (
	specDocs   = storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	sourceDocs = storagev1.VolumeAttachmentSource{}.SwaggerDoc()
	statusDocs = storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
)

// Resource describes volumeattachments.
var Resource = &registry.Resource[*storagev1.VolumeAttachment]{
	Kind:          storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
	Name:          "volumeattachments",
	ClusterScoped: true,
	New:           func() *storagev1.VolumeAttachment { return &storagev1.VolumeAttachment{} },
	NewList:       func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
	Default: func(a *storagev1.VolumeAttachment) {
		if inline := a.Spec.Source.InlineVolumeSpec; inline != nil {
			persistentvolume.SetSourceDefaults(inline)
		}
	},
	RequireResourceVersion: true,
	Validate:               validate,
	ValidateUpdate:         validateUpdate,
	Status: &registry.Status[*storagev1.VolumeAttachment]{
		KeepMetadata: true,
		Validate:     validateUpdate,
	},
	ReturnDeleted: true,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		{Name: "Attacher", Type: "string", Format: "name", Description: specDocs["attacher"]},
		registry.Column("PV", "string", sourceDocs["persistentVolumeName"]),
		registry.Column("Node", "string", specDocs["nodeName"]),
		registry.Column("Attached", "boolean", statusDocs["attached"]),
		registry.AgeColumn,
	},
	Row: func(a *storagev1.VolumeAttachment) []any {
		volume := ""
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			volume = *name
		}
		return []any{a.Name, a.Spec.Attacher, volume, a.Spec.NodeName, a.Status.Attached, registry.Age(a.CreationTimestamp)}
	},
}

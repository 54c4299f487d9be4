// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package csinode serves CSINodes: the storage drivers that are installed on a node. Touch it when kubelets report something
// new of them.
package csinode

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes csinodes.
var Resource = &registry.Resource[*storagev1.CSINode]{
	Kind:                   storagev1.SchemeGroupVersion.WithKind("CSINode"),
	Name:                   "csinodes",
	ClusterScoped:          true,
	New:                    func() *storagev1.CSINode { return &storagev1.CSINode{} },
	NewList:                func() runtime.Object { return &storagev1.CSINodeList{} },
	RequireResourceVersion: true,
	Validate:               validate,
	ValidateUpdate:         validateUpdate,
	Status:                 &registry.Status[*storagev1.CSINode]{KeepMetadata: true, PrepareForUpdate: prepareStatus, Validate: validateStatus},
	ReturnDeleted:          true,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Drivers", "integer", "Drivers indicates the number of CSI drivers registered on the node"),
		registry.AgeColumn,
	},
	Row: func(n *storagev1.CSINode) []any {
		return []any{n.Name, int64(len(n.Spec.Drivers)), registry.Age(n.CreationTimestamp)}
	},
}

// prepareStatus leaves out the health of the storage (KEP-1432, alpha) unless some is there already.
func prepareStatus(_ context.Context, n, old *storagev1.CSINode) {
	if len(old.Status.StorageHealth) == 0 {
		n.Status.StorageHealth = nil
	}
}

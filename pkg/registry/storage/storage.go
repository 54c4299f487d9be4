// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage lists the resources of storage.k8s.io; a new one is a folder here and a line in Group. How objects are
// kept is in pkg/registry/etcdstore.
package storage

import (
	storagev1 "k8s.io/api/storage/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/storage/csidriver"
	"minik8s.io/minik8s/pkg/registry/storage/csinode"
	"minik8s.io/minik8s/pkg/registry/storage/csistoragecapacity"
	"minik8s.io/minik8s/pkg/registry/storage/storageclass"
	"minik8s.io/minik8s/pkg/registry/storage/volumeattachment"
	"minik8s.io/minik8s/pkg/registry/storage/volumeattributesclass"
)

// Group is storage.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        storagev1.GroupName,
		AddToScheme: storagev1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			csidriver.Resource,
			csinode.Resource,
			csistoragecapacity.Resource,
			storageclass.Resource,
			volumeattachment.Resource,
			volumeattributesclass.Resource,
		}}},
	}
}

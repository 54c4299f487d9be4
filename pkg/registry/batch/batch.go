// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package batch lists the resources of the batch group; a new one is a folder here and a line in Group.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/batch/cronjob"
	"minik8s.io/minik8s/pkg/registry/batch/job"
)

// Group is batch.
func Group() registry.Group {
	return registry.Group{
		Name:        batchv1.GroupName,
		AddToScheme: batchv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			cronjob.Resource,
			job.Resource,
		}}},
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csistoragecapacity_test

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/storage/csistoragecapacity"
)

func TestResource(t *testing.T) {
	type capacity = storagev1.CSIStorageCapacity
	registrytest.Run(t, csistoragecapacity.Resource, registrytest.Case[*capacity]{
		AddToScheme: storagev1.AddToScheme,
		Valid: func() *capacity {
			return &capacity{ObjectMeta: metav1.ObjectMeta{Name: "c"}, StorageClassName: "slow", Capacity: new(resource.MustParse("1Gi"))}
		},
		Update: func(c *capacity) { c.Capacity = new(resource.MustParse("2Gi")) },
		Row:    []any{"c"},
		Invalid: []registrytest.Invalid[*capacity]{
			{Name: "class", Mutate: func(c *capacity) { c.StorageClassName = "A b" }, Field: "storageClassName"},
			{Name: "capacity", Mutate: func(c *capacity) { c.Capacity = new(resource.MustParse("-1")) }, Field: "capacity"},
			{Name: "topology", Mutate: func(c *capacity) {
				c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}}
			}, Field: "nodeTopology.matchLabels"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*capacity]{
			{Name: "class", Mutate: func(c *capacity) { c.StorageClassName = "fast" }, Field: "storageClassName"},
			{Name: "topology", Mutate: func(c *capacity) { c.NodeTopology = &metav1.LabelSelector{} }, Field: "nodeTopology"},
		},
	})
}

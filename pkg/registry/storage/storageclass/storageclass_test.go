// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageclass_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/storage/storageclass"
)

func TestResource(t *testing.T) {
	topology := func(expressions ...corev1.TopologySelectorLabelRequirement) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: expressions}
	}
	zone := corev1.TopologySelectorLabelRequirement{Key: corev1.LabelTopologyZone, Values: []string{"a"}}
	type class = storagev1.StorageClass
	registrytest.Run(t, storageclass.Resource, registrytest.Case[*class]{
		AddToScheme: storagev1.AddToScheme,
		Valid: func() *class {
			return &class{
				ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/Disk", Parameters: map[string]string{"a": "b"},
				AllowedTopologies: []corev1.TopologySelectorTerm{topology(zone)},
			}
		},
		Update: func(c *class) { c.AllowVolumeExpansion = new(true) },
		Row:    []any{"slow", "example.com/Disk", "Delete", "Immediate", false},
		Invalid: []registrytest.Invalid[*class]{
			{Name: "no provisioner", Mutate: func(c *class) { c.Provisioner = "" }, Field: "provisioner"},
			{Name: "provisioner", Mutate: func(c *class) { c.Provisioner = "a b" }, Field: "provisioner"},
			{Name: "parameter", Mutate: func(c *class) { c.Parameters[""] = "x" }, Field: "parameters"},
			{Name: "policy", Mutate: func(c *class) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRecycle) }, Field: "reclaimPolicy"},
			{Name: "mode", Mutate: func(c *class) { c.VolumeBindingMode = new(storagev1.VolumeBindingMode("")) }, Field: "volumeBindingMode"},
			{Name: "empty topology", Mutate: func(c *class) { c.AllowedTopologies[0] = topology() }, Field: "allowedTopologies[0].matchLabelExpressions"},
			{Name: "topology twice", Mutate: func(c *class) { c.AllowedTopologies = append(c.AllowedTopologies, topology(zone)) }, Field: "allowedTopologies[1].matchLabelExpressions"},
			{Name: "key twice", Mutate: func(c *class) { c.AllowedTopologies[0] = topology(zone, zone) }, Field: "allowedTopologies[0].matchLabelExpressions[1].key"},
			{Name: "no values", Mutate: func(c *class) { c.AllowedTopologies[0].MatchLabelExpressions[0].Values = nil }, Field: "allowedTopologies[0].matchLabelExpressions[0].values"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*class]{
			{Name: "parameters", Mutate: func(c *class) { c.Parameters["a"] = "c" }, Field: "parameters"},
			{Name: "provisioner", Mutate: func(c *class) { c.Provisioner = "other" }, Field: "provisioner"},
			{Name: "policy", Mutate: func(c *class) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain) }, Field: "reclaimPolicy"},
			{Name: "mode", Mutate: func(c *class) { c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer) }, Field: "volumeBindingMode"},
		},
	})
}

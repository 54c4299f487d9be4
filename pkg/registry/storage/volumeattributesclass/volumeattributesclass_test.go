// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumeattributesclass_test

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/storage/volumeattributesclass"
)

func TestResource(t *testing.T) {
	type class = storagev1.VolumeAttributesClass
	registrytest.Run(t, volumeattributesclass.Resource, registrytest.Case[*class]{
		AddToScheme: storagev1.AddToScheme,
		Valid: func() *class {
			return &class{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "d.example.com", Parameters: map[string]string{"iops": "1"}}
		},
		Update: func(c *class) { c.Labels = map[string]string{"a": "b"} },
		Row:    []any{"gold", "d.example.com"},
		Invalid: []registrytest.Invalid[*class]{
			{Name: "no driver", Mutate: func(c *class) { c.DriverName = "" }, Field: "driverName"},
			{Name: "no parameters", Mutate: func(c *class) { c.Parameters = nil }, Field: "parameters"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*class]{
			{Name: "driver", Mutate: func(c *class) { c.DriverName = "x" }, Field: "driverName"},
			{Name: "parameters", Mutate: func(c *class) { c.Parameters["iops"] = "2" }, Field: "parameters"},
		},
	})
}

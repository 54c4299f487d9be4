// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deviceclass_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/resource/deviceclass"
)

type class = resourcev1.DeviceClass

func TestResource(t *testing.T) {
	registrytest.Run(t, deviceclass.Resource, registrytest.Case[*class]{
		AddToScheme: resourcev1.AddToScheme,
		Valid: func() *class {
			return &class{
				ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"},
				Spec: resourcev1.DeviceClassSpec{
					Selectors:            []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.attributes["example.com"].model == "a"`}}},
					ExtendedResourceName: new("example.com/gpu"),
				},
			}
		},
		Update: func(c *class) { c.Spec.ExtendedResourceName = nil },
		Invalid: []registrytest.Invalid[*class]{
			{Name: "selector is no bool", Mutate: func(c *class) { c.Spec.Selectors[0].CEL.Expression = "1" }, Field: "spec.selectors[0].cel.expression"},
			{Name: "resource", Mutate: func(c *class) { c.Spec.ExtendedResourceName = new("cpu") }, Field: "spec.extendedResourceName"},
			{Name: "configuration", Mutate: func(c *class) {
				c.Spec.Config = []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
					Opaque: &resourcev1.OpaqueDeviceConfiguration{Parameters: runtime.RawExtension{Raw: []byte(`{}`)}},
				}}}
			}, Field: "spec.config[0].opaque.driver"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*class]{
			{Name: "selector", Mutate: func(c *class) { c.Spec.Selectors[0].CEL.Expression = "no(" }, Field: "spec.selectors[0].cel.expression"},
		},
		Row: []any{"gpu.example.com"},
	})
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configmap_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/core/configmap"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	yes := true
	registrytest.Run(t, configmap.Resource, registrytest.Case[*corev1.ConfigMap]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}}
		},
		Update: func(c *corev1.ConfigMap) { c.Data["k"] = "w" },
		Invalid: []registrytest.Invalid[*corev1.ConfigMap]{
			{Name: "bad key", Mutate: func(c *corev1.ConfigMap) { c.Data["a b"] = "x" }, Field: "data[a b]"},
			{Name: "key in both", Mutate: func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"k": nil} }, Field: "data[k]"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.ConfigMap]{
			{
				Name:   "immutable data",
				From:   func(c *corev1.ConfigMap) { c.Immutable = &yes },
				Mutate: func(c *corev1.ConfigMap) { c.Data["k"] = "w" },
				Field:  "data",
			},
		},
		Row: []any{"c", int64(1)},
	})
}

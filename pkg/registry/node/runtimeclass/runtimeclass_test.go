// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeclass

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	type class = nodev1.RuntimeClass
	registrytest.Run(t, Resource, registrytest.Case[*class]{
		AddToScheme: nodev1.AddToScheme,
		Valid: func() *class {
			return &class{
				ObjectMeta: metav1.ObjectMeta{Name: "c"},
				Handler:    "runc",
				Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
				Scheduling: &nodev1.Scheduling{
					NodeSelector: map[string]string{"a": "b"},
					Tolerations:  []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
				},
			}
		},
		Update: func(c *class) { c.Scheduling = nil },
		Invalid: []registrytest.Invalid[*class]{
			{Name: "no handler", Mutate: func(c *class) { c.Handler = "" }, Field: "handler"},
			{Name: "handler", Mutate: func(c *class) { c.Handler = "&" }, Field: "handler"},
			{Name: "overhead", Mutate: func(c *class) { c.Overhead.PodFixed[corev1.ResourceCPU] = resource.MustParse("-1") }, Field: "overhead.limits[cpu]"},
			{Name: "selector", Mutate: func(c *class) { c.Scheduling.NodeSelector["-"] = "" }, Field: "scheduling.nodeSelector"},
			{Name: "toleration", Mutate: func(c *class) { c.Scheduling.Tolerations[0].Operator = "x" }, Field: "scheduling.tolerations[0].operator"},
			{Name: "toleration twice", Mutate: func(c *class) {
				c.Scheduling.Tolerations = append(c.Scheduling.Tolerations, c.Scheduling.Tolerations[0])
			}, Field: "scheduling.tolerations[1]"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*class]{
			{Name: "handler", Mutate: func(c *class) { c.Handler = "other" }, Field: "handler"},
		},
		Row: []any{"c", "runc"},
	})
}

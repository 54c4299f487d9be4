// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, Resource, registrytest.Case[*corev1.Endpoints]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.Endpoints {
			return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}},
				Ports:     []corev1.EndpointPort{{Name: "a", Port: 1}, {Name: "b", Port: 2}},
			}}}
		},
		Update: func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "10.0.0.3" },
		Invalid: []registrytest.Invalid[*corev1.Endpoints]{
			{Name: "no address", Mutate: func(e *corev1.Endpoints) { e.Subsets[0].Addresses = nil }, Field: "subsets[0]"},
			{Name: "loopback", Mutate: func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "127.0.0.1" }, Field: "subsets[0].addresses[0].ip"},
			{Name: "no name", Mutate: func(e *corev1.Endpoints) { e.Subsets[0].Ports[1].Name = "" }, Field: "subsets[0].ports[1].name"},
			{Name: "bad protocol", Mutate: func(e *corev1.Endpoints) { e.Subsets[0].Ports[1].Protocol = "X" }, Field: "subsets[0].ports[1].protocol"},
		},
		Row: []any{"e", "10.0.0.1:1,10.0.0.2:1,10.0.0.1:2 + 1 more..."},
	})
}

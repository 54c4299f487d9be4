// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, Resource, registrytest.Case[*discoveryv1.EndpointSlice]{
		AddToScheme: discoveryv1.AddToScheme,
		Valid: func() *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: "s"},
				AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
				Ports:       []discoveryv1.EndpointPort{{Port: new(int32(80))}},
			}
		},
		Update: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.0.0.2"} },
		Invalid: []registrytest.Invalid[*discoveryv1.EndpointSlice]{
			{Name: "no type", Mutate: func(s *discoveryv1.EndpointSlice) { s.AddressType = "" }, Field: "addressType"},
			{Name: "other family", Mutate: func(s *discoveryv1.EndpointSlice) { s.AddressType = "IPv6" }, Field: "endpoints[0].addresses"},
			{Name: "no address", Mutate: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil }, Field: "endpoints[0].addresses"},
			{Name: "loopback", Mutate: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "127.0.0.1" }, Field: "endpoints[0].addresses[0]"},
			{Name: "same port name", Mutate: func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, s.Ports[0]) }, Field: "ports[1].name"},
			{Name: "bad protocol", Mutate: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = new(corev1.Protocol("X")) }, Field: "ports[0].protocol"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*discoveryv1.EndpointSlice]{
			{Name: "type", Mutate: func(s *discoveryv1.EndpointSlice) { s.AddressType = "FQDN"; s.Endpoints = nil }, Field: "addressType"},
		},
		Row: []any{"s", "IPv4", "80", "10.0.0.1"},
	})
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpointslice serves EndpointSlices, the addresses behind a service in portions of at most 1000. Touch it when
// their rules change.
package endpointslice

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes endpointslices.
var Resource = &registry.Resource[*discoveryv1.EndpointSlice]{
	Kind:             discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
	Name:             "endpointslices",
	New:              func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} },
	NewList:          func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
	Default:          setDefaults,
	PrepareForCreate: func(_ context.Context, s *discoveryv1.EndpointSlice) { dropTopology(s) },
	PrepareForUpdate: func(_ context.Context, s, _ *discoveryv1.EndpointSlice) { dropTopology(s) },
	Validate:         validate,
	WholeUpdate:      true,
	ValidateUpdate:   validateUpdate,
	// Labels count too: they are how slices belong to Services.
	Spec: func(s *discoveryv1.EndpointSlice) any {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: s.Labels}, AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports,
		}
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("AddressType", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["addressType"]),
		registry.Column("Ports", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["ports"]),
		registry.Column("Endpoints", "string", discoveryv1.EndpointSlice{}.SwaggerDoc()["endpoints"]),
		registry.AgeColumn,
	},
	Row: func(s *discoveryv1.EndpointSlice) []any {
		return []any{s.Name, string(s.AddressType), ports(s.Ports), addresses(s.Endpoints), registry.Age(s.CreationTimestamp)}
	},
}

func setDefaults(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
	}
}

// dropTopology ignores the field that v1 clients cannot write.
func dropTopology(s *discoveryv1.EndpointSlice) {
	for i := range s.Endpoints {
		s.Endpoints[i].DeprecatedTopology = nil
	}
}

func ports(list []discoveryv1.EndpointPort) string {
	var out []string
	for _, p := range list {
		switch {
		case p.Port != nil:
			out = append(out, strconv.Itoa(int(*p.Port)))
		case p.Name != nil && *p.Name != "":
			out = append(out, *p.Name)
		default:
			out = append(out, "*")
		}
	}
	return firstThree(out)
}

func addresses(list []discoveryv1.Endpoint) string {
	var out []string
	for _, e := range list {
		out = append(out, e.Addresses...)
	}
	return firstThree(out)
}

func firstThree(list []string) string {
	const limit = 3
	switch {
	case len(list) == 0:
		return "<unset>"
	case len(list) > limit:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:limit], ","), len(list)-limit)
	}
	return strings.Join(list, ",")
}

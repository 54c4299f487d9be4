// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

func TestTargets(t *testing.T) {
	s := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "dns", Port: 53}}}}
	slices := []discoveryv1.EndpointSlice{{
		AddressType: "IPv4",
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("web"), Port: ptr.To[int32](8080)}, {Name: ptr.To("dns"), Port: ptr.To[int32](5353)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}},
			{Addresses: []string{"10.0.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
		},
	}}
	for port, want := range map[string][]string{"web": {"10.0.0.1:8080"}, "53": {"10.0.0.1:5353"}, "x": nil, "": nil} {
		got, found := targets(s, port, slices)
		if found != (want != nil) || !cmp.Equal(want, got) {
			t.Errorf("port %q: %v, %v, want %v", port, got, found, want)
		}
	}
}

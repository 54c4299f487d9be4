// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

func slice(family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		AddressType: family, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(8080))}, {Name: new("other"), Port: new(int32(9090))}},
	}
}

func endpoint(address string, ready, serving, terminating *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}}
}

func TestBackend(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	name := types.NamespacedName{Namespace: "ns", Name: "s"}
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	for _, tc := range []struct {
		name   string
		family corev1.IPFamily
		slices []*discoveryv1.EndpointSlice
		port   Port
		want   []string
		err    error
	}{
		{"ready", "", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", yes, yes, no), endpoint("b", no, no, no))}, Port{Number: 80}, []string{"a:8080"}, nil},
		{"not told is ready", "", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", nil, nil, nil))}, Port{Name: "web"}, []string{"a:8080"}, nil},
		{"slices", "", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", yes, yes, no)), slice(v4, endpoint("a", yes, yes, no), endpoint("b", yes, yes, no))}, Port{Number: 80}, []string{"a:8080", "b:8080"}, nil},
		{"one that ends is left alone", "", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", no, yes, yes), endpoint("b", yes, yes, no))}, Port{Number: 80}, []string{"b:8080"}, nil},
		{"better one that ends than none", "", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", no, yes, yes), endpoint("b", no, no, yes))}, Port{Number: 80}, []string{"a:8080"}, nil},
		{"the first family", corev1.IPv6Protocol, []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", yes, yes, no)), slice(v6, endpoint("fd00::1", yes, yes, no))}, Port{Number: 80}, []string{"[fd00::1]:8080"}, nil},
		{"nobody", "", nil, Port{Number: 80}, nil, nil},
		{"no such port", "", nil, Port{Number: 8080}, nil, ErrNotFound},
		{"UDP", "", nil, Port{Number: 53}, nil, ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}}}
			if tc.family != "" {
				s.Spec.IPFamilies = []corev1.IPFamily{tc.family}
			}
			r := New(Objects{Services: map[types.NamespacedName]*corev1.Service{name: s}, Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{name: tc.slices}}, &KeyPairs{})
			b, err := r.Backend(name, tc.port)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error is %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want, b.Endpoints); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			if again, _ := r.Backend(name, tc.port); again != b {
				t.Error("a port of a Service is two backends")
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/gateway"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
)

// ofGateway is the metadata of something that the router has made for a Gateway.
func ofGateway(name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "router.minik8s.io"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Gateway", UID: uid, Controller: new(true)}},
	}
}

func serviceOf(meta metav1.ObjectMeta, port int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
}

func TestGatewayServices(t *testing.T) {
	t.Parallel()
	annotated := serviceOf(ofGateway("gw", "1"), 80)
	annotated.Annotations, annotated.Spec.ClusterIP = map[string]string{"other": "x"}, "10.0.0.1"
	before := annotated.DeepCopy()
	before.OwnerReferences[0].UID = "0"
	others := serviceOf(metav1.ObjectMeta{Namespace: "ns", Name: "gw"}, 80)
	foreign := serviceOf(ofGateway("foreign", "1"), 80)
	foreign.Labels = nil // of another implementation
	slice := &discoveryv1.EndpointSlice{ObjectMeta: ofGateway("gw-ipv4", "1"), AddressType: discoveryv1.AddressTypeIPv4}
	moved := slice.DeepCopy()
	moved.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}}}
	othersSlice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gw-ipv4", Labels: map[string]string{discoveryv1.LabelServiceName: "x"}}}
	want := func(uid types.UID, port int32) gateway.Service {
		w := gateway.Service{Service: serviceOf(ofGateway("gw", uid), port), Gateway: &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{UID: uid}}}
		w.Slices = []*discoveryv1.EndpointSlice{slice.DeepCopy()}
		w.Slices[0].OwnerReferences[0].UID = uid
		return w
	}
	for _, tc := range []struct {
		name     string
		want     []gateway.Service
		services []*corev1.Service
		slices   []*discoveryv1.EndpointSlice
		changes  []string
		problems int
	}{
		{name: "new", want: []gateway.Service{want("1", 80)}, changes: []string{"create gw"}},
		{name: "its endpoints come when it is there", want: []gateway.Service{want("1", 80)}, services: []*corev1.Service{annotated}, changes: []string{"create gw-ipv4"}},
		{name: "as it is to be", want: []gateway.Service{want("1", 80)}, services: []*corev1.Service{annotated, foreign}, slices: []*discoveryv1.EndpointSlice{slice}},
		{name: "another port, and another address", want: []gateway.Service{want("1", 81)}, services: []*corev1.Service{annotated}, slices: []*discoveryv1.EndpointSlice{moved},
			changes: []string{"update gw", "update gw-ipv4"}},
		{name: "somebody else's Service gets no endpoints", want: []gateway.Service{want("1", 80)}, services: []*corev1.Service{others}, problems: 1},
		{name: "nor keeps them", want: []gateway.Service{want("1", 80)}, services: []*corev1.Service{others}, slices: []*discoveryv1.EndpointSlice{slice}, changes: []string{"remove gw-ipv4"}, problems: 1},
		{name: "somebody else's endpoints", want: []gateway.Service{want("1", 80)}, services: []*corev1.Service{annotated}, slices: []*discoveryv1.EndpointSlice{othersSlice}, problems: 1},
		{name: "of a Gateway before", want: []gateway.Service{want("1", 80)}, services: []*corev1.Service{before}, slices: []*discoveryv1.EndpointSlice{slice}, changes: []string{"remove gw", "remove gw-ipv4"}},
		{name: "two Gateways of one name", want: []gateway.Service{want("2", 80), want("1", 80)}, services: []*corev1.Service{annotated}, slices: []*discoveryv1.EndpointSlice{slice}, problems: 1},
		{name: "not wanted any more", services: []*corev1.Service{annotated, foreign}, slices: []*discoveryv1.EndpointSlice{slice, othersSlice}, changes: []string{"remove gw", "remove gw-ipv4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			there := resolve.Objects{Services: map[types.NamespacedName]*corev1.Service{}, Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{}}
			for _, s := range tc.services {
				there.Services[client.ObjectKeyFromObject(s)] = s
			}
			for _, s := range tc.slices {
				of := types.NamespacedName{Namespace: "ns", Name: s.Labels[discoveryv1.LabelServiceName]}
				there.Slices[of] = append(there.Slices[of], s)
			}
			changes, problems := gatewayServices(tc.want, there)
			var got []string
			for _, c := range changes {
				for name, do := range map[string]any{"create": create, "update": update, "remove": remove} {
					if reflect.ValueOf(do).Pointer() == reflect.ValueOf(c.do).Pointer() {
						got = append(got, name+" "+c.object.GetName())
					}
				}
				if s, ok := c.object.(*corev1.Service); ok && len(tc.services) > 0 && (s.Spec.ClusterIP != "10.0.0.1" || s.Annotations["other"] != "x") {
					t.Errorf("what others have set is lost: %v, %v", s.Annotations, s.Spec)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.changes, got); diff != "" || len(problems) != tc.problems {
				t.Errorf("%d problems, changes (-want +got):\n%s", len(problems), diff)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func svc(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.5", Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

type ep struct {
	ip, node                    string
	ready, serving, terminating *bool
	zones, nodes                []string
}

func slice(eps ...ep) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
	}
	for _, e := range eps {
		d := discoveryv1.Endpoint{Addresses: []string{e.ip},
			Conditions: discoveryv1.EndpointConditions{Ready: e.ready, Serving: e.serving, Terminating: e.terminating}}
		if e.node != "" {
			d.NodeName = new(e.node)
		}
		if len(e.zones)+len(e.nodes) > 0 {
			d.Hints = &discoveryv1.EndpointHints{}
			for _, z := range e.zones {
				d.Hints.ForZones = append(d.Hints.ForZones, discoveryv1.ForZone{Name: z})
			}
			for _, n := range e.nodes {
				d.Hints.ForNodes = append(d.Hints.ForNodes, discoveryv1.ForNode{Name: n})
			}
		}
		s.Endpoints = append(s.Endpoints, d)
	}
	return s
}

func labelled(s *discoveryv1.EndpointSlice, label string) *discoveryv1.EndpointSlice {
	s.Labels[label] = ""
	return s
}

func TestBuild_Endpoints(t *testing.T) {
	no, yes := new(false), new(true)
	externalLocal := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30000
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	tests := []struct {
		name           string
		svc            *corev1.Service
		slices         []*discoveryv1.EndpointSlice
		cluster, local []string
		any            bool
	}{
		{name: "none", svc: svc()},
		{name: "ready by default", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(ep{ip: "1.0.0.1"})}, cluster: []string{"1.0.0.1:8080"}, any: true},
		{name: "not ready", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(ep{ip: "1.0.0.1", ready: no})}},
		{name: "terminating only as the last resort", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", ready: no, serving: yes, terminating: yes}, ep{ip: "1.0.0.2", ready: no, serving: no, terminating: yes})},
			cluster: []string{"1.0.0.1:8080"}, any: true},
		{name: "terminating yields to ready", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", ready: no, serving: yes, terminating: yes}, ep{ip: "1.0.0.2"})},
			cluster: []string{"1.0.0.2:8080"}, any: true},
		{name: "external Local falls back to terminating here, not to ready elsewhere", svc: svc(externalLocal), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", node: "here", ready: no, serving: yes, terminating: yes}, ep{ip: "1.0.0.2", node: "there"})},
			cluster: []string{"1.0.0.2:8080"}, local: []string{"1.0.0.1:8080"}, any: true},
		{name: "zone hints", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", zones: []string{"a"}}, ep{ip: "1.0.0.2", zones: []string{"b"}})},
			cluster: []string{"1.0.0.1:8080"}, any: true},
		{name: "one missing hint turns hints off", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", zones: []string{"a"}}, ep{ip: "1.0.0.2"})},
			cluster: []string{"1.0.0.1:8080", "1.0.0.2:8080"}, any: true},
		{name: "no hint for this zone turns hints off", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", zones: []string{"c"}}, ep{ip: "1.0.0.2", zones: []string{"b"}})},
			cluster: []string{"1.0.0.1:8080", "1.0.0.2:8080"}, any: true},
		{name: "node hints come before zone hints", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", zones: []string{"a"}, nodes: []string{"there"}}, ep{ip: "1.0.0.2", zones: []string{"a"}, nodes: []string{"here"}})},
			cluster: []string{"1.0.0.2:8080"}, any: true},
		{name: "in slices for others", svc: svc(), slices: []*discoveryv1.EndpointSlice{
			slice(ep{ip: "1.0.0.1"}), labelled(slice(ep{ip: "1.0.0.2"}), corev1.IsHeadlessService), labelled(slice(ep{ip: "1.0.0.3"}), labelServiceProxyName)},
			cluster: []string{"1.0.0.1:8080"}, any: true},
		{name: "the same address in two slices", svc: svc(), slices: []*discoveryv1.EndpointSlice{
			slice(ep{ip: "1.0.0.1", ready: no}), slice(ep{ip: "1.0.0.1"})},
			cluster: []string{"1.0.0.1:8080"}, any: true},
		{name: "terminating serves if nothing else is said", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(ep{ip: "1.0.0.1", ready: no, terminating: yes})},
			cluster: []string{"1.0.0.1:8080"}, any: true},
		{name: "the address of a pod that ends is another's, which is not ready", svc: svc(), slices: []*discoveryv1.EndpointSlice{slice(
			ep{ip: "1.0.0.1", ready: no, serving: yes, terminating: yes}, ep{ip: "1.0.0.1", ready: no, serving: no})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Build(IPv4, tt.svc, tt.slices, Node{Name: "here", Zone: "a"})
			if got == nil || len(got.Ports) != 1 {
				t.Fatalf("got %v", got)
			}
			p := got.Ports[0]
			if diff := cmp.Diff(tt.cluster, texts(p.Cluster)); diff != "" {
				t.Errorf("Cluster (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.local, texts(p.Local)); diff != "" {
				t.Errorf("Local (-want +got):\n%s", diff)
			}
			if p.HasEndpoints != tt.any {
				t.Errorf("HasEndpoints is %v", p.HasEndpoints)
			}
		})
	}
}

// TestBuild_Where: nobody has to say where an endpoint runs.
func TestBuild_Where(t *testing.T) {
	t.Parallel()
	eps := slice(ep{ip: "1.0.0.1", node: "here"}, ep{ip: "1.0.0.2", node: "there"}, ep{ip: "1.0.0.3"})
	for i, want := range []Endpoint{{OnNode: true}, {Elsewhere: true}, {}} {
		got := Build(IPv4, svc(), []*discoveryv1.EndpointSlice{eps}, Node{Name: "here"}).Ports[0].Cluster[i]
		if got.OnNode != want.OnNode || got.Elsewhere != want.Elsewhere {
			t.Errorf("%s: here %v, elsewhere %v; want %v, %v", got.Addr, got.OnNode, got.Elsewhere, want.OnNode, want.Elsewhere)
		}
	}
}

// TestBuild_Serving: a flow of UDP may go on to what serves, ready or not.
func TestBuild_Serving(t *testing.T) {
	t.Parallel()
	no, yes := new(false), new(true)
	eps := slice(
		ep{ip: "1.0.0.1"}, ep{ip: "1.0.0.2", serving: no}, ep{ip: "1.0.0.3", ready: no}, ep{ip: "1.0.0.4", ready: no, serving: yes, terminating: yes},
		ep{ip: "1.0.0.5", ready: no, serving: no, terminating: yes},
	)
	eps.Ports[0].Protocol = new(corev1.ProtocolUDP)
	p := Build(IPv4, svc(func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }), []*discoveryv1.EndpointSlice{eps}, Node{}).Ports[0]
	var got []string
	for _, a := range p.Serving {
		got = append(got, a.String())
	}
	if diff := cmp.Diff([]string{"1.0.0.1:8080", "1.0.0.3:8080", "1.0.0.4:8080"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestService_NoLocal: what has no endpoint anywhere is not counted, for it is refused and not dropped.
func TestService_NoLocal(t *testing.T) {
	t.Parallel()
	internal := func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) }
	external := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	}
	here, there := slice(ep{ip: "1.0.0.1", node: "here"}), slice(ep{ip: "1.0.0.2", node: "there"})
	for _, tc := range []struct {
		name  string
		svc   *corev1.Service
		slice *discoveryv1.EndpointSlice
		want  [2]int
	}{
		{"no service", nil, there, [2]int{}},
		{"any endpoint will do", svc(), there, [2]int{}},
		{"internal", svc(internal), there, [2]int{1, 0}},
		{"external", svc(external), there, [2]int{0, 1}},
		{"both", svc(internal, external), there, [2]int{1, 1}},
		{"there is one", svc(internal, external), here, [2]int{}},
		{"there is none anywhere", svc(internal, external), slice(), [2]int{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in, ex := Build(IPv4, tc.svc, []*discoveryv1.EndpointSlice{tc.slice}, Node{Name: "here"}).NoLocal()
			if got := [2]int{in, ex}; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func texts(eps []Endpoint) []string {
	var out []string
	for _, e := range eps {
		out = append(out, e.Addr.String())
	}
	return out
}

func TestBuild_Services(t *testing.T) {
	lb := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
			{IP: "5.0.0.1"}, {IP: "5.0.0.2", IPMode: new(corev1.LoadBalancerIPModeProxy)}, {Hostname: "lb.example"}, {IP: "fd00::1"},
		}
	}
	tests := []struct {
		name  string
		svc   *corev1.Service
		ports int
		lbIPs int
	}{
		{name: "cluster IP", svc: svc(), ports: 1},
		{name: "headless", svc: svc(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })},
		{name: "external name", svc: svc(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })},
		{name: "headless by its label", svc: svc(func(s *corev1.Service) { s.Labels = map[string]string{corev1.IsHeadlessService: ""} })},
		{name: "other proxy", svc: svc(func(s *corev1.Service) { s.Labels = map[string]string{labelServiceProxyName: ""} })},
		{name: "other family", svc: svc(func(s *corev1.Service) { s.Spec.ClusterIP = "fd00::5" })},
		{name: "load balancer", svc: svc(lb), ports: 1, lbIPs: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Build(IPv4, tt.svc, nil, Node{})
			if (got != nil) != (tt.ports > 0) {
				t.Fatalf("got %v, want %d ports", got, tt.ports)
			}
			if got != nil && (len(got.Ports) != tt.ports || len(got.Ports[0].LoadBalancerIPs) != tt.lbIPs) {
				t.Errorf("got ports %v", got.Ports)
			}
		})
	}
}

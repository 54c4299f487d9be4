// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// managedBy has the value madeHere on what is made for a Gateway: other implementations make such things, too.
const (
	managedBy = "app.kubernetes.io/managed-by"
	madeHere  = "router.minik8s.io"
)

// MadeFor is the Gateway that a router has made an object for, "" if none has.
func MadeFor(o client.Object) types.UID {
	if o.GetLabels()[managedBy] != madeHere {
		return ""
	}
	if c := metav1.GetControllerOfNoCopy(o); c != nil && c.Kind == "Gateway" {
		return c.UID
	}
	return ""
}

// Service is that by which pods find a Gateway under a name, in its namespace and called after it and its class, with the labels and
// annotations of spec.infrastructure (GEP-1762).
type Service struct {
	*corev1.Service
	Gateway *gatewayv1.Gateway
	// Slices have where it leads to.
	Slices []*discoveryv1.EndpointSlice
}

// Services are those that there are to be. A Gateway that is refused has none, nor has one whose name with that of its class is none for a
// Service.
func (o *Output) Services() []Service {
	var all []Service
	for _, g := range o.gateways {
		name := g.object.Name + "-" + string(g.object.Spec.GatewayClassName)
		ports := g.ports()
		if len(ports) == 0 || !g.address.IsValid() || len(validation.IsDNS1123Label(name)) > 0 {
			continue
		}
		s := Service{Gateway: g.object, Service: &corev1.Service{
			ObjectMeta: g.made(name), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack)},
		}}
		if i := g.object.Spec.Infrastructure; i != nil {
			for k, v := range i.Labels {
				if _, ours := s.Labels[string(k)]; !ours {
					s.Labels[string(k)] = string(v)
				}
			}
			for k, v := range i.Annotations {
				s.Annotations[string(k)] = string(v)
			}
		}
		for _, p := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.name, Protocol: p.protocol, Port: p.port, TargetPort: intstr.FromInt32(p.at)})
		}
		for _, a := range []netip.Addr{g.address, g.twin} {
			if a.IsValid() && !a.IsLoopback() { // the API takes no loopback address for an endpoint
				s.Slices = append(s.Slices, g.slice(name, a, ports))
			}
		}
		all = append(all, s)
	}
	return all
}

// made is what is the same of a Gateway's Service and of its EndpointSlices.
func (g *gateway) made(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: g.object.Namespace, Annotations: map[string]string{},
		Labels: map[string]string{
			gatewayv1.GatewayNameLabelKey: g.object.Name, gatewayv1.GatewayClassNameLabelKey: string(g.object.Spec.GatewayClassName), managedBy: madeHere,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: g.object.Name, UID: g.object.UID, Controller: new(true),
		}},
	}
}

// slice has the one address of a family.
func (g *gateway) slice(service string, a netip.Addr, ports []servedPort) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if a.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: g.made(service + "-" + strings.ToLower(string(family))), AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{a.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy] = service, madeHere
	for _, p := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(p.name), Protocol: new(p.protocol), Port: new(p.at)})
	}
	return s
}

// servedPort is one of a Gateway, with where it is served.
type servedPort struct {
	name     string
	protocol corev1.Protocol
	port, at int32
}

// ports are those of the listeners that are accepted, each once. One whose certificate is not there keeps its port, so that the Service is not made
// anew, at another address, when it comes.
func (g *gateway) ports() []servedPort {
	ports := map[string]servedPort{}
	for _, l := range g.all() {
		if g.conditions.is(string(gatewayv1.GatewayConditionAccepted), metav1.ConditionFalse) || l.conditions.is(string(gatewayv1.ListenerConditionAccepted), metav1.ConditionFalse) {
			continue
		}
		p := servedPort{protocol: corev1.ProtocolTCP, port: l.spec.Port, at: int32(l.at.Port())}
		if l.spec.Protocol == gatewayv1.UDPProtocolType {
			p.protocol = corev1.ProtocolUDP
		}
		p.name = fmt.Sprintf("%s-%d", strings.ToLower(string(p.protocol)), p.port)
		ports[p.name] = p
	}
	return slices.SortedFunc(maps.Values(ports), func(a, b servedPort) int { return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.name, b.name)) })
}

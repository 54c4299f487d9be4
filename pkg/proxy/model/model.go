// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package model turns Services and EndpointSlices into an immutable picture of what one node has to
// forward. It is pure; change it when the meaning of a Service field changes, not when a rule does.
package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Family is an IP family; the two families are modelled, rendered and applied apart from each other.
type Family string

// The families.
const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

// Has tells whether the address belongs to the family.
func (f Family) Has(a netip.Addr) bool {
	return a.IsValid() && (a.Unmap().Is4() == (f == IPv4))
}

// PortName identifies one port of one service.
type PortName struct {
	Namespace string
	Service   string
	// Port is the port's name, empty when the service's only port is unnamed.
	Port     string
	Protocol corev1.Protocol
}

// String is namespace/service[:port], the form used in rule comments.
func (n PortName) String() string {
	s := n.Namespace + "/" + n.Service
	if n.Port != "" {
		s += ":" + n.Port
	}
	return s
}

func (n PortName) compare(o PortName) int {
	return cmp.Or(
		cmp.Compare(n.Namespace, o.Namespace),
		cmp.Compare(n.Service, o.Service),
		cmp.Compare(n.Port, o.Port),
		cmp.Compare(n.Protocol, o.Protocol),
	)
}

// ServicePort is one port of a service as this node sees it, with the choice of endpoints made.
type ServicePort struct {
	Name      PortName
	ClusterIP netip.Addr
	Port      uint16
	// NodePort is 0 when the service has none.
	NodePort uint16
	// ExternalIPs and LoadBalancerIPs hold only addresses of the snapshot's family. Ingress
	// addresses whose ipMode is Proxy are left out (KEP-1860).
	ExternalIPs     []netip.Addr
	LoadBalancerIPs []netip.Addr
	// SourceRanges limits who may use LoadBalancerIPs; empty means everybody. Restricted tells that
	// ranges were given, even if none of them is of this family.
	SourceRanges []netip.Prefix
	Restricted   bool
	// ExternalLocal and InternalLocal are the traffic policies "Local".
	ExternalLocal bool
	InternalLocal bool
	// AffinitySeconds is the ClientIP affinity timeout, 0 for no affinity.
	AffinitySeconds int32
	// Cluster are the endpoints used under the policy "Cluster", Local those under "Local".
	Cluster []Endpoint
	Local   []Endpoint
	// Serving are the endpoints that may answer what they have begun to, wherever they are and also while they terminate. Only
	// ports of UDP have it.
	Serving []netip.AddrPort
	// HasEndpoints tells that some node could answer, even if this one has no usable endpoint.
	HasEndpoints bool
}

// External tells whether the port is reachable by any address other than its cluster IP.
func (s *ServicePort) External() bool {
	return s.NodePort != 0 || len(s.ExternalIPs) > 0 || len(s.LoadBalancerIPs) > 0
}

// InternalEndpoints are the endpoints for traffic to the cluster IP.
func (s *ServicePort) InternalEndpoints() []Endpoint {
	if s.InternalLocal {
		return s.Local
	}
	return s.Cluster
}

// ExternalEndpoints are the endpoints for traffic that enters by any other address.
func (s *ServicePort) ExternalEndpoints() []Endpoint {
	if s.ExternalLocal {
		return s.Local
	}
	return s.Cluster
}

// Endpoint is one place that serves a port.
type Endpoint struct {
	Addr netip.AddrPort
	// OnNode tells that the endpoint runs on this node, Elsewhere that it runs on another one. Of some nobody says where they do.
	OnNode, Elsewhere bool
}

// HealthCheck is the state behind one healthCheckNodePort.
type HealthCheck struct {
	Port uint16
	// LocalEndpoints is the number of ready endpoints on this node.
	LocalEndpoints int
}

// Name is a Service's.
type Name struct{ Namespace, Name string }

// String is namespace/name.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Compare orders names by namespace, then name.
func (n Name) Compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Namespace, o.Namespace), cmp.Compare(n.Name, o.Name))
}

// Service is what one node forwards for one Service in one family. It is never changed after Build.
type Service struct {
	Name Name
	// Ports is sorted by name.
	Ports []ServicePort
	// HealthCheck is nil if the Service has no healthCheckNodePort.
	HealthCheck *HealthCheck
}

// NoLocal counts the ports for which a traffic policy "Local" finds no endpoint on this node although there are some elsewhere: of traffic
// to the cluster IP, and of other traffic. A nil Service has none.
func (s *Service) NoLocal() (internal, external int) {
	if s == nil {
		return 0, 0
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if !p.HasEndpoints || len(p.Local) > 0 {
			continue
		}
		if p.InternalLocal {
			internal++
		}
		if p.ExternalLocal {
			external++
		}
	}
	return internal, external
}

// Node is what the model has to know of the node that it is made for.
type Node struct {
	Name string
	// Zone is the node's topology.kubernetes.io/zone label.
	Zone string
}

// Build makes one family's picture of a Service from its EndpointSlices; those of other Services and families are ignored. The input
// objects are only read. The result is nil for Services that this node does not forward: none at all, those of type ExternalName,
// headless ones, and those that a label hands to others.
func Build(family Family, svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node Node) *Service {
	if svc == nil || !Forwarded(svc) {
		return nil
	}
	clusterIP, ok := clusterIP(family, svc)
	if !ok {
		return nil
	}
	out := &Service{Name: Name{svc.Namespace, svc.Name}}
	endpoints := indexEndpoints(family, svc, endpointSlices, node)
	template := newTemplate(family, svc, clusterIP)
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		sp := template
		sp.Name = PortName{svc.Namespace, svc.Name, port.Name, protocolOf(port.Protocol)}
		sp.Port = uint16(port.Port)
		sp.NodePort = uint16(port.NodePort)
		sp.choose(endpoints[sp.Name], node)
		out.Ports = append(out.Ports, sp)
	}
	if hc := svc.Spec.HealthCheckNodePort; hc != 0 && template.ExternalLocal {
		out.HealthCheck = &HealthCheck{Port: uint16(hc), LocalEndpoints: localReady(svc, endpoints)}
	}
	slices.SortFunc(out.Ports, func(a, b ServicePort) int { return a.Name.compare(b.Name) })
	return out
}

// labelServiceProxyName hands a service to another proxy (upstream LabelServiceProxyName).
const labelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// forOthers says that the labels of a Service or an EndpointSlice hand it to another proxy, or to nobody: upstream's does not watch such.
func forOthers(labels map[string]string) bool {
	_, other := labels[labelServiceProxyName]
	_, headless := labels[corev1.IsHeadlessService]
	return other || headless
}

// Forwarded tells whether a node forwards packets for the Service, in whatever family.
func Forwarded(svc *corev1.Service) bool {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return false
	}
	return !forOthers(svc.Labels)
}

func clusterIP(family Family, svc *corev1.Service) (netip.Addr, bool) {
	ips := svc.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{svc.Spec.ClusterIP}
	}
	if found := addresses(family, ips); len(found) > 0 {
		return found[0], true
	}
	return netip.Addr{}, false
}

func newTemplate(family Family, svc *corev1.Service, clusterIP netip.Addr) ServicePort {
	t := ServicePort{ClusterIP: clusterIP, ExternalIPs: addresses(family, svc.Spec.ExternalIPs)}
	var ingress []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP {
			ingress = append(ingress, in.IP)
		}
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		t.LoadBalancerIPs = addresses(family, ingress)
		t.Restricted = len(svc.Spec.LoadBalancerSourceRanges) > 0
		t.SourceRanges = prefixes(family, svc.Spec.LoadBalancerSourceRanges)
	}
	if p := svc.Spec.InternalTrafficPolicy; p != nil {
		t.InternalLocal = *p == corev1.ServiceInternalTrafficPolicyLocal
	}
	external := svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer || len(svc.Spec.ExternalIPs) > 0
	t.ExternalLocal = external && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		t.AffinitySeconds = corev1.DefaultClientIPServiceAffinitySeconds
		if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			t.AffinitySeconds = *c.ClientIP.TimeoutSeconds
		}
	}
	return t
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func addresses(family Family, ips []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range ips {
		if a, err := netip.ParseAddr(s); err == nil && family.Has(a) {
			out = append(out, a.Unmap())
		}
	}
	slices.SortStableFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func prefixes(family Family, cidrs []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil && family.Has(p.Addr()) {
			out = append(out, p.Masked())
		}
	}
	return out
}

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
	// OnNode tells that the endpoint runs on this node.
	OnNode bool
}

// HealthCheck is the state behind one healthCheckNodePort.
type HealthCheck struct {
	Namespace string
	Service   string
	Port      uint16
	// LocalEndpoints is the number of ready endpoints on this node.
	LocalEndpoints int
}

// Snapshot is everything one node forwards in one family. It is never changed after Build.
type Snapshot struct {
	Family Family
	// Ports is sorted by name.
	Ports []ServicePort
	// HealthChecks is sorted by namespace and service.
	HealthChecks []HealthCheck
}

// Node is what the model has to know of the node that it is made for.
type Node struct {
	Name string
	// Zone is the node's topology.kubernetes.io/zone label.
	Zone string
}

// Build makes the snapshot of one family. The input objects are only read. Services of type
// ExternalName, headless ones and those labelled service.kubernetes.io/service-proxy-name are ignored.
func Build(family Family, services []*corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node Node) *Snapshot {
	endpoints := indexEndpoints(family, endpointSlices, node)
	snap := &Snapshot{Family: family}
	for _, svc := range services {
		if ignored(svc) {
			continue
		}
		clusterIP, ok := clusterIP(family, svc)
		if !ok {
			continue
		}
		template := newTemplate(family, svc, clusterIP)
		for i := range svc.Spec.Ports {
			port := &svc.Spec.Ports[i]
			sp := template
			sp.Name = PortName{svc.Namespace, svc.Name, port.Name, protocolOf(port.Protocol)}
			sp.Port = uint16(port.Port)
			sp.NodePort = uint16(port.NodePort)
			sp.choose(endpoints[sp.Name], node)
			snap.Ports = append(snap.Ports, sp)
		}
		if hc := svc.Spec.HealthCheckNodePort; hc != 0 && template.ExternalLocal {
			snap.HealthChecks = append(snap.HealthChecks, HealthCheck{
				Namespace:      svc.Namespace,
				Service:        svc.Name,
				Port:           uint16(hc),
				LocalEndpoints: localReady(svc, endpoints),
			})
		}
	}
	slices.SortFunc(snap.Ports, func(a, b ServicePort) int { return a.Name.compare(b.Name) })
	slices.SortFunc(snap.HealthChecks, func(a, b HealthCheck) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service))
	})
	return snap
}

// labelServiceProxyName hands a service to another proxy (upstream LabelServiceProxyName).
const labelServiceProxyName = "service.kubernetes.io/service-proxy-name"

func ignored(svc *corev1.Service) bool {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return true
	}
	if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return true
	}
	_, other := svc.Labels[labelServiceProxyName]
	return other
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package index holds what the DNS server has to know of the cluster, ready to be looked up in constant time. Touch it when
// records need another field of a Service or EndpointSlice.
package index

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Key names a service.
type Key struct{ Namespace, Name string }

// Port is a port that SRV records announce.
type Port struct {
	Name     string
	Protocol string // lower case
	Port     uint16
}

// Endpoint is one address behind a service.
type Endpoint struct {
	// Host is the endpoint's hostname, or its address with dashes.
	Host  string
	Addr  netip.Addr
	Ports []Port
}

// Service is one service with its endpoints. It is never changed after NewService.
type Service struct {
	Key
	// ExternalName is the target of a service of that type, else empty.
	ExternalName string
	// ClusterIPs is empty for a headless service.
	ClusterIPs []netip.Addr
	Ports      []Port
	Endpoints  []Endpoint
	byHost     map[string][]Endpoint
}

// Headless tells that clients get the endpoints' addresses instead of a cluster IP.
func (s *Service) Headless() bool { return s.ExternalName == "" && len(s.ClusterIPs) == 0 }

// Host returns the endpoints with the lower-case hostname; one per family in a dual-stack cluster.
func (s *Service) Host(name string) []Endpoint { return s.byHost[name] }

// Domain is the service's name relative to the zone's svc subdomain.
func (s *Service) Domain() string { return s.Name + "." + s.Namespace }

// NewService builds the entry of a service; the objects are only read. Endpoints that are not ready count if the service
// publishes them.
func NewService(svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice) *Service {
	s := &Service{Key: Key{svc.Namespace, svc.Name}}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		s.ExternalName = strings.TrimSuffix(svc.Spec.ExternalName, ".")
		return s
	}
	ips := svc.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{svc.Spec.ClusterIP}
	}
	for _, ip := range ips {
		if a, err := netip.ParseAddr(ip); err == nil {
			s.ClusterIPs = append(s.ClusterIPs, a.Unmap())
		}
	}
	for _, p := range svc.Spec.Ports {
		s.Ports = append(s.Ports, Port{strings.ToLower(p.Name), protocol(p.Protocol), uint16(p.Port)})
	}
	for _, slice := range endpointSlices {
		s.add(slice, svc.Spec.PublishNotReadyAddresses)
	}
	slices.SortFunc(s.Endpoints, func(a, b Endpoint) int {
		if c := a.Addr.Compare(b.Addr); c != 0 {
			return c
		}
		return strings.Compare(a.Host, b.Host)
	})
	s.Endpoints = slices.CompactFunc(s.Endpoints, func(a, b Endpoint) bool {
		return a.Addr == b.Addr && a.Host == b.Host && slices.Equal(a.Ports, b.Ports)
	})
	s.byHost = make(map[string][]Endpoint, len(s.Endpoints))
	for _, e := range s.Endpoints {
		s.byHost[e.Host] = append(s.byHost[e.Host], e)
	}
	return s
}

func (s *Service) add(slice *discoveryv1.EndpointSlice, unready bool) {
	var ports []Port
	for _, p := range slice.Ports {
		if p.Port == nil {
			continue
		}
		port := Port{Protocol: "tcp", Port: uint16(*p.Port)}
		if p.Name != nil {
			port.Name = strings.ToLower(*p.Name)
		}
		if p.Protocol != nil {
			port.Protocol = protocol(*p.Protocol)
		}
		ports = append(ports, port)
	}
	for _, ep := range slice.Endpoints {
		if !unready && ep.Conditions.Ready != nil && !*ep.Conditions.Ready {
			continue
		}
		for _, ip := range ep.Addresses {
			a, err := netip.ParseAddr(ip)
			if err != nil {
				continue
			}
			a = a.Unmap()
			host := Dashed(a)
			if ep.Hostname != nil && *ep.Hostname != "" {
				host = strings.ToLower(*ep.Hostname)
			}
			s.Endpoints = append(s.Endpoints, Endpoint{Host: host, Addr: a, Ports: ports})
		}
	}
}

// Dashed is the host label of an address: 10.1.2.3 is 10-1-2-3. No label ends in a dash: fd00:: is fd00--0.
func Dashed(a netip.Addr) string {
	label := strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
	if strings.HasSuffix(label, "-") {
		label += "0"
	}
	return label
}

func protocol(p corev1.Protocol) string {
	if p == "" {
		p = corev1.ProtocolTCP
	}
	return strings.ToLower(string(p))
}

// pointers are the reverse names of a service: its cluster IPs, and each endpoint. The specification wants those of headless ones only;
// CoreDNS tells all, so that a pod behind any service finds a name of its own.
func (s *Service) pointers(visit func(netip.Addr, Pointer)) {
	for _, ip := range s.ClusterIPs {
		visit(ip, Pointer{Name: s.Domain(), Namespace: s.Namespace})
	}
	for _, e := range s.Endpoints {
		visit(e.Addr, Pointer{Name: e.Host + "." + s.Domain(), Namespace: s.Namespace, Endpoint: true})
	}
}

// Pointer is the name of an address.
type Pointer struct {
	// Name is relative to the zone's svc subdomain.
	Name string
	// Namespace is that of the service.
	Namespace string
	// Endpoint tells that it is an endpoint, and not a cluster IP.
	Endpoint bool
}

// Index is one state of the cluster. It is immutable: With makes the next.
type Index struct {
	// Serial counts the states; it is the zone's SOA serial.
	Serial     uint32
	services   table[Key, *Service]
	reverse    table[netip.Addr, []Pointer]
	namespaces map[string]bool
	pods       map[PodKey]bool
	hosts      map[string]Host
}

// Host is a name that a Dns object gives.
type Host struct {
	// Namespace is that of the object.
	Namespace string
	Addrs     []netip.Addr
}

// PodKey is a pod's address within its namespace.
type PodKey struct {
	Namespace string
	Addr      netip.Addr
}

// Empty returns the index of an empty cluster with the given serial.
func Empty(serial uint32) *Index {
	return &Index{Serial: serial, namespaces: map[string]bool{}, pods: map[PodKey]bool{}}
}

// Changes is what differs in the next state.
type Changes struct {
	// Services are the entries to set; nil removes.
	Services map[Key]*Service
	// Namespaces, Pods and Hosts, unless nil, replace what there was. Hosts are by their names, fully qualified and in lower case.
	Namespaces map[string]bool
	Pods       map[PodKey]bool
	Hosts      map[string]Host
}

// With returns the next state. Only the changed services are computed anew.
func (x *Index) With(c Changes) *Index {
	next := *x
	next.Serial++
	if c.Namespaces != nil {
		next.namespaces = c.Namespaces
	}
	if c.Pods != nil {
		next.pods = c.Pods
	}
	if c.Hosts != nil {
		next.hosts = c.Hosts
	}
	services, reverse := next.services.edit(), next.reverse.edit()
	for key, s := range c.Services {
		old := services.get(key)
		services.set(key, s, s == nil)
		type named struct {
			addr netip.Addr
			Pointer
		}
		now := map[named]bool{}
		if s != nil {
			s.pointers(func(a netip.Addr, p Pointer) {
				now[named{a, p}] = true
				point(reverse, a, p)
			})
		}
		if old != nil { // most of its endpoints are there still
			old.pointers(func(a netip.Addr, p Pointer) {
				if !now[named{a, p}] {
					unpoint(reverse, a, p)
				}
			})
		}
	}
	next.services, next.reverse = services.table, reverse.table
	return &next
}

// point and unpoint never touch the slices, which are shared with earlier states.
func point(reverse *edit[netip.Addr, []Pointer], a netip.Addr, p Pointer) {
	if have := reverse.get(a); !slices.Contains(have, p) {
		reverse.set(a, append(slices.Clip(have), p), false)
	}
}

func unpoint(reverse *edit[netip.Addr, []Pointer], a netip.Addr, p Pointer) {
	var rest []Pointer
	for _, have := range reverse.get(a) {
		if have != p {
			rest = append(rest, have)
		}
	}
	reverse.set(a, rest, len(rest) == 0)
}

// Service returns a service, nil if there is none.
func (x *Index) Service(namespace, name string) *Service { return x.services.get(Key{namespace, name}) }

// Names returns the names that an address has.
func (x *Index) Names(a netip.Addr) []Pointer { return x.reverse.get(a) }

// HasNamespace tells whether the namespace exists.
func (x *Index) HasNamespace(name string) bool { return x.namespaces[name] }

// HasPod tells whether a pod in the namespace has the address.
func (x *Index) HasPod(k PodKey) bool { return x.pods[k] }

// Host returns what a Dns object says of a name, which is fully qualified and in lower case.
func (x *Index) Host(name string) (Host, bool) {
	h, ok := x.hosts[name]
	return h, ok
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// candidate is an endpoint before the choice among its fellows.
type candidate struct {
	Endpoint
	ready, serving, terminating bool

	zoneHints []string
	nodeHints []string
}

// draining tells that it still serves although it terminates.
func (c candidate) draining() bool { return c.serving && c.terminating }

// indexEndpoints collects the candidates of every port over all slices of a service, without duplicates,
// sorted by address.
func indexEndpoints(family Family, svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node Node) map[PortName][]candidate {
	index := make(map[PortName][]candidate, len(endpointSlices))
	for _, slice := range endpointSlices {
		service := slice.Labels[discoveryv1.LabelServiceName]
		if service != svc.Name || slice.Namespace != svc.Namespace || string(slice.AddressType) != string(family) || forOthers(slice.Labels) {
			continue
		}
		for i := range slice.Ports {
			port := &slice.Ports[i]
			if port.Port == nil || *port.Port == 0 {
				continue
			}
			name := PortName{Namespace: slice.Namespace, Service: service, Protocol: corev1.ProtocolTCP}
			if port.Name != nil {
				name.Port = *port.Name
			}
			if port.Protocol != nil {
				name.Protocol = protocolOf(*port.Protocol)
			}
			for j := range slice.Endpoints {
				if c, ok := newCandidate(family, &slice.Endpoints[j], uint16(*port.Port), node); ok {
					index[name] = append(index[name], c)
				}
			}
		}
	}
	for name, list := range index {
		// Of two slices naming one address, as happens while an endpoint moves between slices, the
		// ready statement wins; but a pod that has the address of one which ends comes before that one.
		slices.SortFunc(list, func(a, b candidate) int {
			if c := a.Addr.Compare(b.Addr); c != 0 {
				return c
			}
			return rank(b) - rank(a)
		})
		index[name] = slices.CompactFunc(list, func(a, b candidate) bool { return a.Addr == b.Addr })
	}
	return index
}

func rank(c candidate) int {
	n := 0
	if !c.terminating {
		n += 4
	}
	if c.ready {
		n += 2
	}
	if c.serving {
		n++
	}
	return n
}

func newCandidate(family Family, ep *discoveryv1.Endpoint, port uint16, node Node) (candidate, bool) {
	// All addresses of an endpoint are the same endpoint; consumers use the first (EndpointSlice API).
	if len(ep.Addresses) == 0 {
		return candidate{}, false
	}
	addr, err := netip.ParseAddr(ep.Addresses[0])
	if err != nil || !family.Has(addr) {
		return candidate{}, false
	}
	c := candidate{
		Endpoint: Endpoint{
			Addr:      netip.AddrPortFrom(addr.Unmap(), port),
			OnNode:    ep.NodeName != nil && *ep.NodeName == node.Name,
			Elsewhere: ep.NodeName != nil && *ep.NodeName != node.Name,
		},
		ready:       ep.Conditions.Ready == nil || *ep.Conditions.Ready,
		serving:     ep.Conditions.Serving == nil || *ep.Conditions.Serving,
		terminating: ep.Conditions.Terminating != nil && *ep.Conditions.Terminating,
	}
	if ep.Hints != nil {
		for _, h := range ep.Hints.ForZones {
			c.zoneHints = append(c.zoneHints, h.Name)
		}
		for _, h := range ep.Hints.ForNodes {
			c.nodeHints = append(c.nodeHints, h.Name)
		}
	}
	return c, true
}

// choose fills Cluster, Local, Serving and HasEndpoints. Ready endpoints are preferred; serving ones that
// terminate are the last resort, decided apart for each traffic policy (KEP-1669).
func (s *ServicePort) choose(all []candidate, node Node) {
	isReady := func(c candidate) bool { return c.ready }
	isDraining := func(c candidate) bool { return c.draining() }
	onNode := func(c candidate) bool { return c.OnNode }

	for _, c := range all {
		s.HasEndpoints = s.HasEndpoints || c.ready || c.draining()
		if c.serving && s.Name.Protocol == corev1.ProtocolUDP {
			s.Serving = append(s.Serving, c.Addr)
		}
	}
	// Even under an external policy "Local" the pods and the node itself reach all endpoints.
	if !s.InternalLocal || s.External() {
		s.Cluster = pick(all, isReady, closeTo(all, node))
		if len(s.Cluster) == 0 {
			s.Cluster = pick(all, isDraining)
		}
	}
	if s.InternalLocal || s.ExternalLocal {
		s.Local = pick(all, isReady, onNode)
		if len(s.Local) == 0 {
			s.Local = pick(all, isDraining, onNode)
		}
	}
}

func pick(all []candidate, conditions ...func(candidate) bool) []Endpoint {
	var out []Endpoint
next:
	for _, c := range all {
		for _, ok := range conditions {
			if !ok(c) {
				continue next
			}
		}
		out = append(out, c.Endpoint)
	}
	return out
}

// closeTo returns the topology filter. Hints count only if every ready endpoint carries one and at
// least one is meant for this node or zone; node hints come before zone hints (KEP-2433, KEP-3015).
func closeTo(all []candidate, node Node) func(candidate) bool {
	forNode := func(c candidate) bool { return slices.Contains(c.nodeHints, node.Name) }
	forZone := func(c candidate) bool { return node.Zone != "" && slices.Contains(c.zoneHints, node.Zone) }

	nodeHinted, zoneHinted, nodeHit, zoneHit := true, true, false, false
	for _, c := range all {
		if !c.ready {
			continue
		}
		nodeHinted = nodeHinted && len(c.nodeHints) > 0
		zoneHinted = zoneHinted && len(c.zoneHints) > 0
		nodeHit = nodeHit || forNode(c)
		zoneHit = zoneHit || forZone(c)
	}
	switch {
	case nodeHinted && nodeHit:
		return forNode
	case zoneHinted && zoneHit:
		return forZone
	}
	return func(candidate) bool { return true }
}

// localReady counts the distinct ready addresses on this node over all ports of a service.
func localReady(svc *corev1.Service, endpoints map[PortName][]candidate) int {
	seen := map[netip.Addr]bool{}
	for _, port := range svc.Spec.Ports {
		name := PortName{svc.Namespace, svc.Name, port.Name, protocolOf(port.Protocol)}
		for _, c := range endpoints[name] {
			if c.ready && c.OnNode {
				seen[c.Addr.Addr()] = true
			}
		}
	}
	return len(seen)
}

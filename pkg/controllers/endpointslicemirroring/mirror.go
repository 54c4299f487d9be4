// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslicemirroring

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	endpointsliceutil "k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"

	"minik8s.io/minik8s/pkg/controllers/internal/subsets"
)

// Plan is what has to be written, and what could not be mirrored.
type Plan struct {
	Create, Update, Delete []*discoveryv1.EndpointSlice
	// Invalid is the number of addresses that are none; Skipped is the number of all that are not mirrored.
	Invalid, Skipped int
}

// group is what goes into one slice: the addresses of a family that serve the same ports.
type group struct {
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort
	endpoints endpointsliceutil.EndpointSet
}

// key tells groups and slices apart.
type key struct {
	family discoveryv1.AddressType
	ports  endpointsliceutil.PortMapKey
}

// Mirror compares Endpoints with the slices that mirror them. At most limit addresses of a subset are mirrored, so that
// a group is one slice. A slice that is not needed any more becomes one that is, if the family agrees: its name lives
// on.
func Mirror(endpoints *corev1.Endpoints, existing []*discoveryv1.EndpointSlice, limit int) Plan {
	groups, plan := grouped(endpoints, limit)
	have := map[key][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		k := key{slice.AddressType, endpointsliceutil.NewPortMapKey(slice.Ports)}
		have[k] = append(have[k], slice)
	}
	var missing []*group
	for _, k := range sortedKeys(groups) {
		g := groups[k]
		if len(have[k]) == 0 {
			missing = append(missing, g)
			continue
		}
		first := have[k][0]
		have[k] = have[k][1:]
		if wanted := g.slice(endpoints, first); !same(first, wanted, g.endpoints) {
			plan.Update = append(plan.Update, wanted)
		}
	}
	for _, k := range sortedKeys(have) {
		plan.Delete = append(plan.Delete, have[k]...)
	}
	for _, g := range missing {
		i := slices.IndexFunc(plan.Delete, func(s *discoveryv1.EndpointSlice) bool { return s.AddressType == g.family })
		if i < 0 {
			plan.Create = append(plan.Create, g.slice(endpoints, nil))
			continue
		}
		plan.Update = append(plan.Update, g.slice(endpoints, plan.Delete[i]))
		plan.Delete = slices.Delete(plan.Delete, i, i+1)
	}
	return plan
}

// grouped sorts the addresses into groups, none of which is empty, and counts those that are left out.
func grouped(endpoints *corev1.Endpoints, limit int) (map[key]*group, Plan) {
	groups, plan := map[key]*group{}, Plan{}
	for _, subset := range subsets.Repack(endpoints.Subsets) {
		ports := portsOf(subset.Ports)
		added := 0
		add := func(addresses []corev1.EndpointAddress, ready bool) {
			for _, a := range addresses {
				if added == limit {
					return
				}
				endpoint, family, ok := endpointOf(a, ready)
				if !ok {
					plan.Invalid++
					continue
				}
				k := key{family, endpointsliceutil.NewPortMapKey(ports)}
				if groups[k] == nil {
					groups[k] = &group{family: family, ports: ports, endpoints: endpointsliceutil.EndpointSet{}}
				}
				groups[k].endpoints.Insert(endpoint)
				added++
			}
		}
		add(subset.Addresses, true)
		add(subset.NotReadyAddresses, false)
		plan.Skipped += len(subset.Addresses) + len(subset.NotReadyAddresses) - added
	}
	return groups, plan
}

// slice returns the group as a slice: base with another content, or a new one.
func (g *group) slice(endpoints *corev1.Endpoints, base *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: endpoints.Namespace, GenerateName: endpoints.Name + "-"},
		AddressType: g.family,
	}
	if base != nil {
		slice = base.DeepCopy()
	}
	owner := metav1.NewControllerRef(endpoints, corev1.SchemeGroupVersion.WithKind("Endpoints"))
	slice.OwnerReferences = []metav1.OwnerReference{*owner}
	slice.Labels = map[string]string{}
	maps.Copy(slice.Labels, endpoints.Labels)
	slice.Labels[discoveryv1.LabelServiceName] = endpoints.Name
	slice.Labels[discoveryv1.LabelManagedBy] = ManagedBy
	slice.Annotations = map[string]string{}
	maps.Copy(slice.Annotations, endpoints.Annotations)
	delete(slice.Annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(slice.Annotations, corev1.LastAppliedConfigAnnotation)
	slice.Ports = g.ports
	slice.Endpoints = []discoveryv1.Endpoint{}
	for _, e := range g.endpoints.UnsortedList() {
		slice.Endpoints = append(slice.Endpoints, *e)
	}
	slices.SortFunc(slice.Endpoints, func(a, b discoveryv1.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Addresses[0], b.Addresses[0]), cmp.Compare(targetUID(a), targetUID(b)))
	})
	return slice
}

func targetUID(e discoveryv1.Endpoint) string {
	if e.TargetRef == nil {
		return ""
	}
	return string(e.TargetRef.UID)
}

// same tells whether a slice is as wanted already, in whatever order its endpoints are.
func same(have, wanted *discoveryv1.EndpointSlice, endpoints endpointsliceutil.EndpointSet) bool {
	if !maps.Equal(have.Labels, wanted.Labels) || !maps.Equal(have.Annotations, wanted.Annotations) {
		return false
	}
	owned := slices.ContainsFunc(have.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == wanted.OwnerReferences[0].UID
	})
	if !owned || len(have.Endpoints) != endpoints.Len() {
		return false
	}
	for i := range have.Endpoints {
		e := endpoints.Get(&have.Endpoints[i])
		if e == nil || !endpointsliceutil.EndpointsEqualBeyondHash(e, &have.Endpoints[i]) {
			return false
		}
	}
	return true
}

// endpointOf converts an address; leading zeros and the like are not kept.
func endpointOf(a corev1.EndpointAddress, ready bool) (*discoveryv1.Endpoint, discoveryv1.AddressType, bool) {
	ip := netutils.ParseIPSloppy(a.IP)
	if ip == nil {
		return nil, "", false
	}
	family := discoveryv1.AddressTypeIPv4
	if ip.To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	e := &discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: a.TargetRef, NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e, family, true
}

func portsOf(ports []corev1.EndpointPort) []discoveryv1.EndpointPort {
	converted := []discoveryv1.EndpointPort{}
	for _, p := range ports {
		converted = append(converted, discoveryv1.EndpointPort{
			Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol,
		})
	}
	return converted
}

func sortedKeys[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.ports, b.ports))
	})
}

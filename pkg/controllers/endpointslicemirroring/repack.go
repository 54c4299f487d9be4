// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslicemirroring

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// subset is a set of addresses that serve the same ports.
type subset struct {
	ports []corev1.EndpointPort
	// addresses that are ready come first; within these two parts they are sorted.
	addresses []address
}

type address struct {
	corev1.EndpointAddress
	ready bool
}

// identity tells addresses apart: pods that use their node's address share it.
type identity struct {
	ip  string
	uid types.UID
}

// port is an EndpointPort that can be compared.
type port struct {
	name        string
	number      int32
	protocol    corev1.Protocol
	appProtocol string
	// app tells whether there is an appProtocol.
	app bool
}

// repack brings subsets into their canonical form, in which no address is twice under the same port. An address that is
// both ready and not ready for a port is not. Addresses without any port are kept.
func repack(subsets []corev1.EndpointSubset) []subset {
	known := map[identity]corev1.EndpointAddress{}
	portless := port{number: -1}
	byPort := map[port]map[identity]bool{}
	file := func(a corev1.EndpointAddress, ports []corev1.EndpointPort, ready bool) {
		id := identity{ip: a.IP}
		if a.TargetRef != nil {
			id.uid = a.TargetRef.UID
		}
		if _, ok := known[id]; !ok {
			known[id] = a
		}
		under := []port{portless}
		if len(ports) > 0 {
			under = under[:0]
			for _, p := range ports {
				under = append(under, port{p.Name, p.Port, p.Protocol, ptr.Deref(p.AppProtocol, ""), p.AppProtocol != nil})
			}
		}
		for _, p := range under {
			if byPort[p] == nil {
				byPort[p] = map[identity]bool{}
			}
			was, ok := byPort[p][id]
			byPort[p][id] = ready && (was || !ok)
		}
	}
	for _, s := range subsets {
		for _, a := range s.Addresses {
			file(a, s.Ports, true)
		}
		for _, a := range s.NotReadyAddresses {
			file(a, s.Ports, false)
		}
	}
	return join(known, byPort, portless)
}

// join makes one subset of all ports that have the same addresses.
func join(known map[identity]corev1.EndpointAddress, byPort map[port]map[identity]bool, portless port) []subset {
	ports := slices.SortedFunc(maps.Keys(byPort), func(a, b port) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.number, b.number),
			cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.appProtocol, b.appProtocol))
	})
	var joined []subset
	index := map[string]int{}
	for _, p := range ports {
		addresses := sorted(known, byPort[p])
		k := fingerprint(addresses)
		i, ok := index[k]
		if !ok {
			i = len(joined)
			index[k] = i
			joined = append(joined, subset{addresses: addresses})
		}
		if p == portless {
			continue
		}
		converted := corev1.EndpointPort{Name: p.name, Port: p.number, Protocol: p.protocol}
		if p.app {
			converted.AppProtocol = &p.appProtocol
		}
		joined[i].ports = append(joined[i].ports, converted)
	}
	return joined
}

func sorted(known map[identity]corev1.EndpointAddress, ids map[identity]bool) []address {
	order := func(id identity) int {
		if ids[id] {
			return 0
		}
		return 1
	}
	var addresses []address
	for _, id := range slices.SortedFunc(maps.Keys(ids), func(a, b identity) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.ip, b.ip), cmp.Compare(a.uid, b.uid))
	}) {
		addresses = append(addresses, address{known[id], ids[id]})
	}
	return addresses
}

func fingerprint(addresses []address) string {
	var b strings.Builder
	for _, a := range addresses {
		uid := types.UID("")
		if a.TargetRef != nil {
			uid = a.TargetRef.UID
		}
		fmt.Fprintf(&b, "%s/%s/%t;", a.IP, uid, a.ready)
	}
	return b.String()
}

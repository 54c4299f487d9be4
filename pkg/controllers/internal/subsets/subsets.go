// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package subsets brings the subsets of Endpoints into upstream's canonical form, byte by byte. Touch it when addresses are
// grouped or ordered otherwise than there.
package subsets

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
	"k8s.io/utils/ptr"
)

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

// portless stands for the port of addresses that have none.
var portless = port{number: -1}

// Repack returns the given subsets in a form in which no address is twice under the same port, and all ports that have the same addresses are
// together. An address that is both ready and not ready for a port is not. Addresses without any port are kept.
func Repack(given []corev1.EndpointSubset) []corev1.EndpointSubset {
	known := map[identity]corev1.EndpointAddress{}
	byPort := map[port]map[identity]bool{}
	file := func(a corev1.EndpointAddress, ports []corev1.EndpointPort, ready bool) {
		id := identityOf(a)
		if _, ok := known[id]; !ok {
			known[id] = a
		}
		for _, p := range comparablePorts(ports) {
			if byPort[p] == nil {
				byPort[p] = map[identity]bool{}
			}
			was, ok := byPort[p][id]
			byPort[p][id] = ready && (was || !ok)
		}
	}
	for _, s := range given {
		for _, a := range s.Addresses {
			file(a, s.Ports, true)
		}
		for _, a := range s.NotReadyAddresses {
			file(a, s.Ports, false)
		}
	}
	joined := join(known, byPort)
	for i := range joined {
		sortByHash(joined[i].Ports)
	}
	sortByHash(joined)
	return joined
}

func identityOf(a corev1.EndpointAddress) identity {
	if a.TargetRef == nil {
		return identity{ip: a.IP}
	}
	return identity{a.IP, a.TargetRef.UID}
}

func comparablePorts(ports []corev1.EndpointPort) []port {
	if len(ports) == 0 {
		return []port{portless}
	}
	all := make([]port, len(ports))
	for i, p := range ports {
		all[i] = port{p.Name, p.Port, p.Protocol, ptr.Deref(p.AppProtocol, ""), p.AppProtocol != nil}
	}
	return all
}

// join makes one subset of all ports that have the same addresses.
func join(known map[identity]corev1.EndpointAddress, byPort map[port]map[identity]bool) []corev1.EndpointSubset {
	var joined []corev1.EndpointSubset
	index := map[string]int{}
	for p, ids := range byPort {
		sorted := slices.SortedFunc(maps.Keys(ids), func(a, b identity) int {
			return cmp.Or(cmp.Compare(a.ip, b.ip), cmp.Compare(a.uid, b.uid))
		})
		var fingerprint strings.Builder
		for _, id := range sorted {
			fmt.Fprintf(&fingerprint, "%s/%s/%t;", id.ip, id.uid, ids[id])
		}
		i, ok := index[fingerprint.String()]
		if !ok {
			i = len(joined)
			index[fingerprint.String()] = i
			joined = append(joined, corev1.EndpointSubset{})
			for _, id := range sorted {
				if ids[id] {
					joined[i].Addresses = append(joined[i].Addresses, known[id])
				} else {
					joined[i].NotReadyAddresses = append(joined[i].NotReadyAddresses, known[id])
				}
			}
		}
		if p == portless {
			continue
		}
		converted := corev1.EndpointPort{Name: p.name, Port: p.number, Protocol: p.protocol}
		if p.app {
			converted.AppProtocol = &p.appProtocol
		}
		joined[i].Ports = append(joined[i].Ports, converted)
	}
	return joined
}

// sortByHash sorts by what upstream sorts by: an order that says nothing, but is the same everywhere.
func sortByHash[T any](items []T) {
	hash := func(item T) []byte {
		h := fnv.New128a()
		h.Write([]byte(dump.ForHash(item)))
		return h.Sum(nil)
	}
	slices.SortFunc(items, func(a, b T) int { return bytes.Compare(hash(a), hash(b)) })
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

// Subsets returns the addresses of the pods, grouped by the ports that they serve the Service on: pods may call different
// numbers by the same port name. The result is sorted, so that equal input gives equal output.
func Subsets(svc *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	groups := map[string]*corev1.EndpointSubset{}
	for _, pod := range pods {
		if !endpointsliceutil.ShouldPodBeInEndpoints(pod, svc.Spec.PublishNotReadyAddresses) {
			continue
		}
		address, ok := addressOf(svc, pod)
		if !ok {
			continue
		}
		ports := portsOf(svc, pod)
		if len(ports) == 0 && (len(svc.Spec.Ports) > 0 || svc.Spec.ClusterIP != corev1.ClusterIPNone) {
			// Only a headless Service may publish addresses without any port.
			continue
		}
		key := portsKey(ports)
		if groups[key] == nil {
			groups[key] = &corev1.EndpointSubset{Ports: ports}
		}
		if group := groups[key]; svc.Spec.PublishNotReadyAddresses || endpointsliceutil.IsPodReady(pod) {
			group.Addresses = append(group.Addresses, address)
		} else {
			group.NotReadyAddresses = append(group.NotReadyAddresses, address)
		}
	}
	keys := make([]string, 0, len(groups))
	for key := range groups {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var subsets []corev1.EndpointSubset
	for _, key := range keys {
		slices.SortFunc(groups[key].Addresses, compareAddresses)
		slices.SortFunc(groups[key].NotReadyAddresses, compareAddresses)
		subsets = append(subsets, *groups[key])
	}
	return subsets
}

func compareAddresses(a, b corev1.EndpointAddress) int {
	return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.TargetRef.UID, b.TargetRef.UID))
}

// addressOf returns the pod's address of the Service's first IP family.
func addressOf(svc *corev1.Service, pod *corev1.Pod) (corev1.EndpointAddress, bool) {
	family := corev1.IPv4Protocol
	switch {
	case len(svc.Spec.IPFamilies) > 0:
		family = svc.Spec.IPFamilies[0]
	case netutils.IsIPv6String(svc.Spec.ClusterIP), len(svc.Spec.ClusterIP) == 0 && netutils.IsIPv6String(pod.Status.PodIP):
		family = corev1.IPv6Protocol
	}
	ips := pod.Status.PodIPs
	if len(ips) == 0 {
		ips = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	for _, ip := range ips {
		if netutils.IsIPv6String(ip.IP) != (family == corev1.IPv6Protocol) {
			continue
		}
		address := corev1.EndpointAddress{
			IP: ip.IP,
			TargetRef: &corev1.ObjectReference{
				Kind:      "Pod",
				Namespace: pod.Namespace,
				Name:      pod.Name,
				UID:       pod.UID,
			},
		}
		if pod.Spec.NodeName != "" {
			address.NodeName = new(pod.Spec.NodeName)
		}
		if endpointsliceutil.ShouldSetHostname(pod, svc) {
			address.Hostname = pod.Spec.Hostname
		}
		return address, true
	}
	return corev1.EndpointAddress{}, false
}

// portsOf resolves the target ports of the Service on the pod; one that the pod does not name is left out.
func portsOf(svc *corev1.Service, pod *corev1.Pod) []corev1.EndpointPort {
	var ports []corev1.EndpointPort
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		number, err := endpointslice.FindPort(pod, port)
		if err != nil {
			continue
		}
		ports = append(ports, corev1.EndpointPort{Name: port.Name, Port: int32(number), Protocol: port.Protocol, AppProtocol: port.AppProtocol})
	}
	slices.SortFunc(ports, func(a, b corev1.EndpointPort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return ports
}

func portsKey(ports []corev1.EndpointPort) string {
	var key strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&key, "%s/%d/%s/%s;", p.Name, p.Port, p.Protocol, ptr.Deref(p.AppProtocol, ""))
	}
	return key.String()
}

// truncate keeps at most limit addresses, ready ones first, and reports whether it dropped any.
func truncate(subsets []corev1.EndpointSubset, limit int) ([]corev1.EndpointSubset, bool) {
	total := 0
	for i := range subsets {
		total += len(subsets[i].Addresses) + len(subsets[i].NotReadyAddresses)
	}
	if total <= limit {
		return subsets, false
	}
	take := func(addresses []corev1.EndpointAddress) []corev1.EndpointAddress {
		n := min(limit, len(addresses))
		limit -= n
		return addresses[:n:n]
	}
	for i := range subsets {
		subsets[i].Addresses = take(subsets[i].Addresses)
	}
	var kept []corev1.EndpointSubset
	for i := range subsets {
		subsets[i].NotReadyAddresses = take(subsets[i].NotReadyAddresses)
		if len(subsets[i].Addresses)+len(subsets[i].NotReadyAddresses) > 0 {
			kept = append(kept, subsets[i])
		}
	}
	return kept, true
}

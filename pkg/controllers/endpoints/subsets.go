// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"

	"minik8s.io/minik8s/pkg/controllers/internal/subsets"
)

// Subsets returns the addresses of the pods, grouped by the ports that they serve the Service on: pods may call different
// numbers by the same port name, and not all of them all names.
func Subsets(svc *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var single []corev1.EndpointSubset
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
		subset := corev1.EndpointSubset{Ports: ports}
		if svc.Spec.PublishNotReadyAddresses || endpointsliceutil.IsPodReady(pod) {
			subset.Addresses = []corev1.EndpointAddress{address}
		} else {
			subset.NotReadyAddresses = []corev1.EndpointAddress{address}
		}
		single = append(single, subset)
	}
	return subsets.Repack(single)
}

// addressOf returns the pod's address of the Service's first IP family.
func addressOf(svc *corev1.Service, pod *corev1.Pod) (corev1.EndpointAddress, bool) {
	family := corev1.IPv4Protocol
	switch {
	case len(svc.Spec.IPFamilies) > 0:
		family = svc.Spec.IPFamilies[0]
	case svc.Spec.ClusterIP == "", svc.Spec.ClusterIP == corev1.ClusterIPNone:
		if netutils.IsIPv6String(pod.Status.PodIP) {
			family = corev1.IPv6Protocol
		}
	case netutils.IsIPv6String(svc.Spec.ClusterIP):
		family = corev1.IPv6Protocol
	}
	for _, podIP := range pod.Status.PodIPs {
		ip := netutils.ParseIPSloppy(podIP.IP)
		if ip == nil || netutils.IsIPv6(ip) != (family == corev1.IPv6Protocol) {
			continue
		}
		address := corev1.EndpointAddress{
			IP: ip.String(),
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
	return ports
}

// truncate keeps at most limit addresses, ready ones first, of each subset in proportion to what it has, and reports whether
// it dropped any. A subset without any address would be refused by the API server.
func truncate(all []corev1.EndpointSubset, limit int) ([]corev1.EndpointSubset, bool) {
	ready, notReady := 0, 0
	for i := range all {
		ready += len(all[i].Addresses)
		notReady += len(all[i].NotReadyAddresses)
	}
	if ready+notReady <= limit {
		return all, false
	}
	room, total := limit-ready, notReady
	if ready > limit {
		room, total = limit, ready
	}
	left := room
	for i := range all {
		cut := &all[i].NotReadyAddresses
		if ready > limit {
			cut, all[i].NotReadyAddresses = &all[i].Addresses, nil
		}
		share := int(math.Ceil(float64(len(*cut)) / float64(total) * float64(room)))
		*cut = (*cut)[:min(share, left, len(*cut))]
		left -= len(*cut)
	}
	return slices.DeleteFunc(all, func(s corev1.EndpointSubset) bool { return len(s.Addresses)+len(s.NotReadyAddresses) == 0 }), true
}

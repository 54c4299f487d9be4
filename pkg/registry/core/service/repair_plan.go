// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/registry/core/service/ipallocator"
)

// An address is taken before its service is written, so a young one without a service is nobody's fault: a write takes at
// most requestGrace, and one that is undone is over after undoGrace. Both are upstream's.
const (
	requestGrace = time.Minute
	undoGrace    = 5 * time.Second
)

// addressPlan is what to do so that each ClusterIP has its IPAddress and each IPAddress its service. An address may be
// removed and made again. problems cannot be repaired.
type addressPlan struct {
	remove   []networkingv1.IPAddress
	create   []*networkingv1.IPAddress
	problems []string
}

func planAddresses(services []corev1.Service, addresses []networkingv1.IPAddress, ranges []ipallocator.Range, now time.Time) addressPlan {
	byName, byService := map[string]*networkingv1.IPAddress{}, map[types.NamespacedName]*corev1.Service{}
	for i := range addresses {
		byName[addresses[i].Name] = &addresses[i]
	}
	for i := range services {
		byService[types.NamespacedName{Namespace: services[i].Namespace, Name: services[i].Name}] = &services[i]
	}
	var p addressPlan
	made := map[string]bool{}
	for i := range services {
		s := &services[i]
		owner := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		for _, text := range planIPs(s, nil).want {
			ip, err := netip.ParseAddr(text)
			switch {
			case err != nil:
				p.problems = append(p.problems, fmt.Sprintf("the ClusterIP %s for Service %s is not a valid IP", text, owner))
				continue
			case !slices.ContainsFunc(ranges, func(r ipallocator.Range) bool { return r.Contains(ip) }):
				p.problems = append(p.problems, fmt.Sprintf("the ClusterIP %s for Service %s is not within any service CIDR", ip, owner))
				continue
			}
			want, have := ipallocator.Address(ip, owner), byName[ip.String()]
			switch {
			case made[want.Name] || have != nil && sharedWith(have, owner, byService):
				p.problems = append(p.problems, fmt.Sprintf("the ClusterIP %s for Service %s was assigned to other services", ip, owner))
				continue
			case have != nil && isFor(have, want):
				continue
			case have != nil:
				p.remove = append(p.remove, *have)
			}
			made[want.Name] = true
			p.create = append(p.create, want)
		}
	}
	for i := range addresses {
		a := &addresses[i]
		if a.Labels[networkingv1.LabelManagedBy] == ipallocator.ControllerName && !made[a.Name] && orphaned(a, byService, now) {
			p.remove = append(p.remove, *a)
		}
	}
	return p
}

// parentService is the service that an address belongs to; ok is false if it belongs to something else.
func parentService(a *networkingv1.IPAddress) (name types.NamespacedName, ok bool) {
	r := a.Spec.ParentRef
	if r == nil || r.Group != "" || r.Resource != "services" {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, true
}

// sharedWith tells whether the address belongs to another service that has it too.
func sharedWith(a *networkingv1.IPAddress, owner types.NamespacedName, services map[types.NamespacedName]*corev1.Service) bool {
	parent, ok := parentService(a)
	other := services[parent]
	return ok && parent != owner && other != nil && slices.Contains(other.Spec.ClusterIPs, a.Name)
}

// isFor tells whether have does what want would do.
func isFor(have, want *networkingv1.IPAddress) bool {
	for key, value := range want.Labels {
		if have.Labels[key] != value {
			return false
		}
	}
	return have.Spec.ParentRef != nil && *have.Spec.ParentRef == *want.Spec.ParentRef
}

// orphaned tells whether an address of the allocator has no service that uses it, nor one that is being written.
func orphaned(a *networkingv1.IPAddress, services map[types.NamespacedName]*corev1.Service, now time.Time) bool {
	parent, ok := parentService(a)
	if !ok {
		return true
	}
	s, age := services[parent], now.Sub(a.CreationTimestamp.Time)
	switch {
	case s == nil:
		return age > requestGrace
	case slices.Contains(s.Spec.ClusterIPs, a.Name):
		return false
	case s.Spec.Type == corev1.ServiceTypeExternalName: // it may be getting a ClusterIP right now
		return age >= requestGrace
	}
	return age >= undoGrace || !a.CreationTimestamp.After(s.CreationTimestamp.Time)
}

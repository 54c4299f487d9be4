// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry/core/endpoints"
)

const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
	maxHints     = 8
)

var (
	addressTypes = []discoveryv1.AddressType{discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	protocols    = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
)

func validate(_ context.Context, s *discoveryv1.EndpointSlice) field.ErrorList {
	var errs field.ErrorList
	switch path := field.NewPath("addressType"); {
	case s.AddressType == "":
		errs = append(errs, field.Required(path, ""))
	case !slices.Contains(addressTypes, s.AddressType):
		errs = append(errs, field.NotSupported(path, s.AddressType, addressTypes))
	}
	errs = append(errs, validateEndpoints(s.Endpoints, s.AddressType, field.NewPath("endpoints"))...)
	return append(errs, validatePorts(s.Ports, field.NewPath("ports"))...)
}

func validateUpdate(ctx context.Context, s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validate(ctx, s)
	return append(errs, apivalidation.ValidateImmutableField(s.AddressType, old.AddressType, field.NewPath("addressType"))...)
}

func validateEndpoints(list []discoveryv1.Endpoint, kind discoveryv1.AddressType, path *field.Path) field.ErrorList {
	if len(list) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(list), maxEndpoints)}
	}
	var errs field.ErrorList
	for i, e := range list {
		at := path.Index(i)
		switch p := at.Child("addresses"); {
		case len(e.Addresses) == 0:
			errs = append(errs, field.Required(p, "must contain at least 1 address"))
		case len(e.Addresses) > maxAddresses:
			errs = append(errs, field.TooMany(p, len(e.Addresses), maxAddresses))
		}
		for j, a := range e.Addresses {
			errs = append(errs, validateAddress(a, j, kind, at.Child("addresses"))...)
		}
		if e.NodeName != nil {
			for _, msg := range validation.IsDNS1123Subdomain(*e.NodeName) {
				errs = append(errs, field.Invalid(at.Child("nodeName"), *e.NodeName, msg))
			}
		}
		if e.Hostname != nil {
			for _, msg := range validation.IsDNS1123Label(*e.Hostname) {
				errs = append(errs, field.Invalid(at.Child("hostname"), *e.Hostname, msg))
			}
		}
		if e.Hints != nil {
			errs = append(errs, validateHints(e.Hints, at.Child("hints"))...)
		}
	}
	return errs
}

// validateAddress checks the j-th of the addresses at path.
func validateAddress(a string, j int, kind discoveryv1.AddressType, path *field.Path) field.ErrorList {
	if kind == discoveryv1.AddressTypeFQDN {
		return validation.IsFullyQualifiedDomainName(path.Index(j), a)
	}
	if errs := validation.IsValidIPForLegacyField(path.Index(j), a, true, nil); len(errs) > 0 {
		return errs
	}
	ip, err := netip.ParseAddr(a)
	if err != nil {
		return field.ErrorList{field.Invalid(path.Index(j), a, "must be a valid IP address")}
	}
	var errs field.ErrorList
	switch { // of the wrong family are all together, as upstream has it
	case kind == discoveryv1.AddressTypeIPv4 && !ip.Is4():
		errs = append(errs, field.Invalid(path, a, "must be an IPv4 address"))
	case kind == discoveryv1.AddressTypeIPv6 && !ip.Is6():
		errs = append(errs, field.Invalid(path, a, "must be an IPv6 address"))
	}
	return append(errs, endpoints.ValidateReachable(a, path.Index(j))...)
}

func validateHints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	var zones, nodes []string
	for _, z := range h.ForZones {
		zones = append(zones, z.Name)
	}
	for _, n := range h.ForNodes {
		nodes = append(nodes, n.Name)
	}
	check := func(names []string, path *field.Path, valid func(string) []string) field.ErrorList {
		if len(names) > maxHints {
			return field.ErrorList{field.TooMany(path, len(names), maxHints)}
		}
		var errs field.ErrorList
		seen := sets.New[string]()
		for i, n := range names {
			at := path.Index(i).Child("name")
			if seen.Has(n) {
				errs = append(errs, field.Duplicate(at, n))
			}
			seen.Insert(n)
			for _, msg := range valid(n) {
				errs = append(errs, field.Invalid(at, n, msg))
			}
		}
		return errs
	}
	errs := check(zones, path.Child("forZones"), validation.IsValidLabelValue)
	return append(errs, check(nodes, path.Child("forNodes"), validation.IsDNS1123Subdomain)...)
}

func validatePorts(list []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(list) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(list), maxPorts)}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for i, p := range list {
		at := path.Index(i)
		if p.Name != nil {
			if *p.Name != "" {
				for _, msg := range validation.IsDNS1123Label(*p.Name) {
					errs = append(errs, field.Invalid(at.Child("name"), *p.Name, msg))
				}
			}
			if names.Has(*p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), *p.Name))
			}
			names.Insert(*p.Name)
		}
		switch {
		case p.Protocol == nil:
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		case !slices.Contains(protocols, *p.Protocol):
			errs = append(errs, field.NotSupported(at.Child("protocol"), *p.Protocol, protocols))
		}
		if p.AppProtocol != nil {
			for _, msg := range validation.IsQualifiedName(*p.AppProtocol) {
				errs = append(errs, field.Invalid(at.Child("appProtocol"), *p.AppProtocol, msg))
			}
		}
	}
	return errs
}

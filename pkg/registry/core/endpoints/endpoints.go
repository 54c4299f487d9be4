// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoints serves Endpoints, the older, deprecated form of EndpointSlices. Touch it when its rules change.
package endpoints

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes endpoints.
var Resource = &registry.Resource[*corev1.Endpoints]{
	Kind:                corev1.SchemeGroupVersion.WithKind("Endpoints"),
	Name:                "endpoints",
	ShortNames:          []string{"ep"},
	New:                 func() *corev1.Endpoints { return &corev1.Endpoints{} },
	NewList:             func() runtime.Object { return &corev1.EndpointsList{} },
	AllowCreateOnUpdate: true,
	Default:             setDefaults,
	Validate:            validate,
	WholeUpdate:         true,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Endpoints", "string", corev1.Endpoints{}.SwaggerDoc()["subsets"]),
		registry.AgeColumn,
	},
	Row: func(e *corev1.Endpoints) []any {
		return []any{e.Name, summary(e.Subsets), registry.Age(e.CreationTimestamp)}
	},
}

func setDefaults(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if p := &e.Subsets[i].Ports[j]; p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
		}
	}
}

func validate(_ context.Context, e *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	for i, s := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j, a := range s.Addresses {
			errs = append(errs, validateAddress(a, at.Child("addresses").Index(j))...)
		}
		for j, a := range s.NotReadyAddresses {
			errs = append(errs, validateAddress(a, at.Child("notReadyAddresses").Index(j))...)
		}
		for j, p := range s.Ports {
			errs = append(errs, validatePort(p, len(s.Ports) > 1, at.Child("ports").Index(j))...)
		}
	}
	return errs
}

func validateAddress(a corev1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := validation.IsValidIPForLegacyField(path.Child("ip"), a.IP, false, nil)
	if len(a.Hostname) > 0 {
		for _, msg := range validation.IsDNS1123Label(a.Hostname) {
			errs = append(errs, field.Invalid(path.Child("hostname"), a.Hostname, msg))
		}
	}
	if a.NodeName != nil {
		for _, msg := range validation.IsDNS1123Subdomain(*a.NodeName) {
			errs = append(errs, field.Invalid(path.Child("nodeName"), *a.NodeName, msg))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, ValidateReachable(a.IP, path.Child("ip"))...)
	}
	return errs
}

// ValidateReachable refuses addresses by which an endpoint could lead a client to its own machine.
func ValidateReachable(address string, path *field.Path) field.ErrorList {
	ip := net.ParseIP(address)
	invalid := func(msg string) field.ErrorList { return field.ErrorList{field.Invalid(path, address, msg)} }
	switch {
	case ip == nil:
		return invalid("must be a valid IP address")
	case ip.IsUnspecified():
		return invalid(fmt.Sprintf("may not be unspecified (%v)", address))
	case ip.IsLoopback():
		return invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)")
	case ip.IsLinkLocalUnicast():
		return invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	case ip.IsLinkLocalMulticast():
		return invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	}
	return nil
}

func validatePort(p corev1.EndpointPort, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		for _, msg := range validation.IsDNS1123Label(p.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), p.Name, msg))
		}
	} else if named {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	for _, msg := range validation.IsValidPortNum(int(p.Port)) {
		errs = append(errs, field.Invalid(path.Child("port"), p.Port, msg))
	}
	protocols := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	switch {
	case p.Protocol == "":
		errs = append(errs, field.Required(path.Child("protocol"), ""))
	case !slices.Contains(protocols, p.Protocol):
		errs = append(errs, field.NotSupported(path.Child("protocol"), p.Protocol, protocols))
	}
	if p.AppProtocol != nil {
		for _, msg := range validation.IsQualifiedName(*p.AppProtocol) {
			errs = append(errs, field.Invalid(path.Child("appProtocol"), *p.AppProtocol, msg))
		}
	}
	return errs
}

// summary shows the first three addresses.
func summary(subsets []corev1.EndpointSubset) string {
	const limit = 3
	var list []string
	count := 0
	add := func(s string) {
		if count++; len(list) < limit {
			list = append(list, s)
		}
	}
	for _, s := range subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				add(a.IP)
			}
			continue
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				add(net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	switch {
	case len(subsets) == 0:
		return "<none>"
	case count > limit:
		return fmt.Sprintf("%s + %d more...", strings.Join(list, ","), count-limit)
	}
	return strings.Join(list, ",")
}

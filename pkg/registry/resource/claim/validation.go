// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// Validate checks what a new claim asks for.
func Validate(s *resourcev1.ResourceClaimSpec, path *field.Path) field.ErrorList {
	path = path.Child("devices")
	requests := RequestsOf(s)
	errs := device.ValidateSet(s.Devices.Requests, resourcev1.DeviceRequestsMaxSize, validateRequest,
		func(r resourcev1.DeviceRequest) string { return r.Name }, path.Child("requests"))
	errs = append(errs, device.ValidateSlice(s.Devices.Constraints, resourcev1.DeviceConstraintsMaxSize,
		func(c resourcev1.DeviceConstraint, path *field.Path) field.ErrorList {
			return requests.constraint(c, path)
		}, path.Child("constraints"))...)
	return append(errs, device.ValidateSlice(s.Devices.Config, resourcev1.DeviceConfigMaxSize,
		func(c resourcev1.DeviceClaimConfiguration, path *field.Path) field.ErrorList {
			return append(requests.ValidateRefs(c.Requests, path.Child("requests")), device.ValidateConfiguration(c.DeviceConfiguration, false, path)...)
		}, path.Child("config"))...)
}

func validateRequest(r resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := device.ValidateLabel(r.Name, path.Child("name"))
	switch {
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		return append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly != nil:
		e := r.Exactly
		return append(errs, validateWish(wish{e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations}, path.Child("exactly"))...)
	}
	return append(errs, device.ValidateSet(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize,
		func(s resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
			errs := device.ValidateLabel(s.Name, path.Child("name"))
			return append(errs, validateWish(wish{s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations}, path)...)
		},
		func(s resourcev1.DeviceSubRequest) string { return s.Name }, path.Child("firstAvailable"))...)
}

// wish is what an exact request and an alternative have in common.
type wish struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func validateWish(w wish, path *field.Path) field.ErrorList {
	errs := device.ValidateClass(w.class, path.Child("deviceClassName"))
	errs = append(errs, device.ValidateSelectors(w.selectors, false, path.Child("selectors"))...)
	switch w.mode {
	case resourcev1.DeviceAllocationModeAll:
		if w.count != 0 {
			errs = append(errs, field.Invalid(path.Child("count"), w.count, fmt.Sprintf("must not be specified when allocationMode is '%s'", w.mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if w.count <= 0 {
			errs = append(errs, field.Invalid(path.Child("count"), w.count, "must be greater than zero"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("allocationMode"), w.mode,
			[]resourcev1.DeviceAllocationMode{resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount}))
	}
	return append(errs, device.ValidateSlice(w.tolerations, device.Unlimited, device.ValidateToleration, path.Child("tolerations"))...)
}

// Requests are the names of requests with those of their alternatives.
type Requests map[string]sets.Set[string]

// RequestsOf returns the requests of a claim.
func RequestsOf(s *resourcev1.ResourceClaimSpec) Requests {
	names := Requests{}
	for _, r := range s.Devices.Requests {
		names[r.Name] = sets.New[string]()
		for _, sub := range r.FirstAvailable {
			names[r.Name].Insert(sub.Name)
		}
	}
	return names
}

func (r Requests) has(name string) bool {
	request, alternative, isAlternative := strings.Cut(name, "/")
	alternatives, ok := r[request]
	return ok && (!isAlternative || alternatives.Has(alternative))
}

// ValidateRefs checks a list of references to requests.
func (r Requests) ValidateRefs(names []string, path *field.Path) field.ErrorList {
	return device.ValidateSet(names, resourcev1.DeviceRequestsMaxSize, r.ValidateRef, func(name string) string { return name }, path)
}

// ValidateRef checks that the name is one of a request, or of a request and one of its alternatives.
func (r Requests) ValidateRef(name string, path *field.Path) field.ErrorList {
	const unknown = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		return field.ErrorList{field.Invalid(path, name, unknown)}
	}
	var errs field.ErrorList
	for _, part := range parts {
		errs = append(errs, device.ValidateLabel(part, path)...)
	}
	if !r.has(name) {
		errs = append(errs, field.Invalid(path, name, unknown))
	}
	return errs
}

func (r Requests) constraint(c resourcev1.DeviceConstraint, path *field.Path) field.ErrorList {
	errs := r.ValidateRefs(c.Requests, path.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		return append(errs, device.ValidateFullyQualifiedName(*c.MatchAttribute, path.Child("matchAttribute"))...)
	case c.DistinctAttribute != nil:
		return append(errs, device.ValidateFullyQualifiedName(*c.DistinctAttribute, path.Child("distinctAttribute"))...)
	}
	return append(errs, field.Required(path, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`)) // upstream's words
}

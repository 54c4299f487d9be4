// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// validate checks a slice; old is nil on create.
func validate(s, old *resourcev1.ResourceSliceSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := device.ValidateDriver(s.Driver, path.Child("driver"))
	errs = append(errs, validatePool(&s.Pool, path.Child("pool"))...)
	if old != nil {
		errs = append(errs, validation.ValidateImmutableField(s.Pool.Name, old.Pool.Name, path.Child("pool", "name"))...)
		errs = append(errs, validation.ValidateImmutableField(s.Driver, old.Driver, path.Child("driver"))...)
		errs = append(errs, validation.ValidateImmutableField(s.NodeName, old.NodeName, path.Child("nodeName"))...)
	}
	errs = append(errs, validatePlace(s, path)...)
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	errs = append(errs, device.ValidateSet(s.Devices, maxDevices(s),
		func(d resourcev1.Device, path *field.Path) field.ErrorList {
			return validateDevice(&d, find(old, d.Name), perDevice, path)
		},
		func(d resourcev1.Device) string { return d.Name }, path.Child("devices"))...)
	return append(errs, device.ValidateSet(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, validateCounterSet,
		func(c resourcev1.CounterSet) string { return c.Name }, path.Child("sharedCounters"))...)
}

// maxDevices is less for devices that are harder to allocate.
func maxDevices(s *resourcev1.ResourceSliceSpec) int {
	if slices.ContainsFunc(s.Devices, func(d resourcev1.Device) bool { return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 }) {
		return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourcev1.ResourceSliceMaxDevices
}

// find returns the device of that name in the old slice, nil if it is new.
func find(old *resourcev1.ResourceSliceSpec, name string) *resourcev1.Device {
	if old == nil {
		return nil
	}
	if i := slices.IndexFunc(old.Devices, func(d resourcev1.Device) bool { return d.Name == name }); i >= 0 {
		return &old.Devices[i]
	}
	return nil
}

func validatePool(p *resourcev1.ResourcePool, path *field.Path) field.ErrorList {
	errs := device.ValidatePool(p.Name, path.Child("name"))
	if p.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("resourceSliceCount"), p.ResourceSliceCount, "must be greater than zero"))
	}
	if p.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("generation"), p.Generation, "must be greater than or equal to zero"))
	}
	return errs
}

// validatePlace checks that the slice says in one way where its devices are.
func validatePlace(s *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	const ways = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	var set []string
	var errs field.ErrorList
	if s.NodeName != nil && *s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Child("nodeName"), "", "must be either unset or set to a non-empty string"))
	} else if s.NodeName != nil {
		set = append(set, "`nodeName`")
		errs = append(errs, validateNodeName(*s.NodeName, path.Child("nodeName"))...)
	}
	if s.NodeSelector != nil {
		set = append(set, "`nodeSelector`")
		errs = append(errs, validateNodeSelector(s.NodeSelector, path.Child("nodeSelector"))...)
	}
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"allNodes", s.AllNodes}, {"perDeviceNodeSelection", s.PerDeviceNodeSelection}} {
		switch {
		case flag.value == nil:
		case *flag.value:
			set = append(set, "`"+flag.name+"`")
		default:
			errs = append(errs, field.Invalid(path.Child(flag.name), false, "must be either unset or set to true"))
		}
	}
	switch len(set) {
	case 0:
		errs = append(errs, field.Required(path, ways))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, fmt.Sprintf("{%s}", strings.Join(set, ", ")), ways+", but multiple fields are set"))
	}
	return errs
}

func validateNodeName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateNodeSelector demands a single term: the selectors of slices have to be merged when a claim takes from several.
func validateNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	errs := affinity.ValidateNodeSelector(s, path)
	if len(s.NodeSelectorTerms) != 1 {
		errs = append(errs, field.Invalid(path.Child("nodeSelectorTerms"), s.NodeSelectorTerms, "must have exactly one node selector term"))
	}
	return errs
}

func validateCounterSet(c resourcev1.CounterSet, path *field.Path) field.ErrorList {
	return validateCounters(c.Name, path.Child("name"), c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, path.Child("counters"))
}

// validateCounters checks what a set of counters is called and what is in it. Every quantity will do.
func validateCounters(name string, namePath *field.Path, counters map[string]resourcev1.Counter, limit int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(namePath, ""))
	} else {
		errs = append(errs, device.ValidateLabel(name, namePath)...)
	}
	if len(counters) == 0 {
		return append(errs, field.Required(path, ""))
	}
	return append(errs, device.ValidateMap(counters, limit, utilvalidation.DNS1123LabelMaxLength, device.ValidateLabel,
		func(resourcev1.Counter, *field.Path) field.ErrorList { return nil }, path)...)
}

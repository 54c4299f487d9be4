// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"regexp"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// keyLength is the most that a valid name of an attribute or capacity has.
const keyLength = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength

// validateDevice checks one device; old is nil if it is new. Capacity and taints that are as they were stay, whatever they
// are. perDevice tells that the device, and not the slice, says where it is.
func validateDevice(d, old *resourcev1.Device, perDevice bool, path *field.Path) field.ErrorList {
	errs := device.ValidateLabel(d.Name, path.Child("name"))
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	if n := len(d.Attributes); n > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attribute values must not exceed %d", resourcev1.ResourceSliceMaxAttributeValuesPerDevice)))
	}
	errs = append(errs, device.ValidateMap(d.Attributes, device.Unlimited, keyLength, device.ValidateQualifiedName, validateAttribute, path.Child("attributes"))...)
	if old == nil || !apiequality.Semantic.DeepEqual(old.Capacity, d.Capacity) {
		validate := refusePolicy
		if d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
			validate = validateCapacity
		}
		errs = append(errs, device.ValidateMap(d.Capacity, device.Unlimited, keyLength, device.ValidateQualifiedName, validate, path.Child("capacity"))...)
	}
	if old == nil || !apiequality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, device.ValidateSlice(d.Taints, resourcev1.DeviceTaintsMaxLength,
			func(t resourcev1.DeviceTaint, path *field.Path) field.ErrorList {
				return device.ValidateTaint(&t, nil, path)
			}, path.Child("taints"))...)
	}
	errs = append(errs, device.ValidateSet(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice,
		func(c resourcev1.DeviceCounterConsumption, path *field.Path) field.ErrorList {
			return validateCounters(c.CounterSet, path.Child("counterSet"), c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, path.Child("counters"))
		},
		func(c resourcev1.DeviceCounterConsumption) string { return c.CounterSet }, path.Child("consumesCounters"))...)
	if perDevice {
		errs = append(errs, validateOwnPlace(d, path)...)
	} else if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
		errs = append(errs, field.Invalid(path, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"))
	}
	return append(errs, device.ValidateBinding(d.BindingConditions, d.BindingFailureConditions, path)...)
}

// validateOwnPlace checks that a device says in one way where it is.
func validateOwnPlace(d *resourcev1.Device, path *field.Path) field.ErrorList {
	const ways = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	var set []string
	var errs field.ErrorList
	if d.NodeName != nil && *d.NodeName == "" {
		errs = append(errs, field.Invalid(path.Child("nodeName"), "", "must not be empty"))
	} else if d.NodeName != nil {
		set = append(set, "`nodeName`")
		errs = append(errs, validateNodeName(*d.NodeName, path.Child("nodeName"))...)
	}
	if d.NodeSelector != nil {
		set = append(set, "`nodeSelector`")
		errs = append(errs, affinity.ValidateNodeSelector(d.NodeSelector, path.Child("nodeSelector"))...)
	}
	if d.AllNodes != nil && *d.AllNodes {
		set = append(set, "`allNodes`")
	} else if d.AllNodes != nil {
		errs = append(errs, field.Invalid(path.Child("allNodes"), false, "must be either unset or set to true"))
	}
	switch len(set) {
	case 0:
		errs = append(errs, field.Required(path, ways))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, fmt.Sprintf("{%s}", strings.Join(set, ", ")), ways))
	}
	return errs
}

// version is the grammar of semver.org 2.0.0.
var version = func() *regexp.Regexp {
	const number, release, build = `(0|[1-9]\d*)`, `(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)`, `[0-9a-zA-Z-]+`
	return regexp.MustCompile(`^` + number + `\.` + number + `\.` + number +
		`(-` + release + `(\.` + release + `)*)?(\+` + build + `(\.` + build + `)*)?$`)
}()

// validateAttribute checks that an attribute has one value. Lists are gone by now, see dropDisabled.
func validateAttribute(a resourcev1.DeviceAttribute, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := 0
	for _, present := range []bool{a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil} {
		if present {
			values++
		}
	}
	if a.StringValue != nil {
		errs = append(errs, validateLength(*a.StringValue, path.Child("string"))...)
	}
	if v := a.VersionValue; v != nil {
		if !version.MatchString(*v) {
			errs = append(errs, field.Invalid(path.Child("version"), *v, "must be a string compatible with semver.org spec 2.0.0"))
		}
		errs = append(errs, validateLength(*v, path.Child("version"))...)
	}
	if values != 1 {
		errs = append(errs, field.Invalid(path, a, "exactly one value must be specified"))
	}
	return errs
}

func validateLength(value string, path *field.Path) field.ErrorList {
	if len(value) <= resourcev1.DeviceAttributeMaxValueLength {
		return nil
	}
	return field.ErrorList{field.TooLong(path, "", resourcev1.DeviceAttributeMaxValueLength)}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"math"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// maxValues is how many amounts a policy may list.
const maxValues = 10

// refusePolicy is for devices that are allocated as a whole.
func refusePolicy(c resourcev1.DeviceCapacity, path *field.Path) field.ErrorList {
	if c.RequestPolicy == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("requestPolicy"), "allowMultipleAllocations must be true")}
}

// validateCapacity checks which parts of a capacity can be asked for.
func validateCapacity(c resourcev1.DeviceCapacity, path *field.Path) field.ErrorList {
	p := c.RequestPolicy
	if p == nil {
		return nil
	}
	path = path.Child("requestPolicy")
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(path, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0 && p.Default == nil:
		return field.ErrorList{field.Required(path.Child("default"), "required when validValues is defined")}
	case len(p.ValidValues) > 0:
		return validateValues(p.ValidValues, *p.Default, c.Value, path.Child("validValues"))
	case p.ValidRange != nil && p.Default == nil:
		return field.ErrorList{field.Required(path.Child("default"), "required when validRange is defined")}
	case p.ValidRange != nil:
		return validateRange(p.ValidRange, *p.Default, c.Value, path.Child("validRange"))
	}
	return nil
}

// validateValues checks a list of amounts: ascending, none above the capacity, the default among them.
func validateValues(values []resource.Quantity, preset, capacity resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), values[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, device.ValidateSet(values, maxValues,
		func(v resource.Quantity, path *field.Path) field.ErrorList {
			found = found || v.Cmp(preset) == 0
			if v.Cmp(capacity) > 0 {
				return field.ErrorList{field.Invalid(path, v.String(), fmt.Sprintf("option is larger than capacity value: %s", capacity.String()))}
			}
			return nil
		},
		// Fractions of a unit do not tell amounts apart: their gate is off in 1.37.
		func(v resource.Quantity) int64 { return v.Value() }, path)...)
	if !found {
		errs = append(errs, field.Invalid(path, preset.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

// validateRange checks a range of amounts: within the capacity, the default within the range, and it and the maximum a
// whole number of steps from the minimum.
func validateRange(r *resourcev1.CapacityRequestPolicyRange, preset, capacity resource.Quantity, path *field.Path) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(path.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	wrong := func(name string, value resource.Quantity, format string, other resource.Quantity) {
		errs = append(errs, field.Invalid(path.Child(name), value.String(), fmt.Sprintf(format, other.String())))
	}
	if r.Min.Cmp(capacity) > 0 {
		wrong("min", *r.Min, "min is larger than capacity value: %s", capacity)
	}
	if preset.Cmp(*r.Min) < 0 {
		wrong("default", preset, "default is less than min: %s", *r.Min)
	}
	if r.Max != nil {
		if r.Min.Cmp(*r.Max) > 0 {
			wrong("max", *r.Min, "min is larger than max: %s", *r.Max)
		}
		if r.Max.Cmp(capacity) > 0 {
			wrong("max", *r.Max, "max is larger than capacity value: %s", capacity)
		}
		if preset.Cmp(*r.Max) > 0 {
			wrong("default", preset, "default is more than max: %s", *r.Max)
		}
	}
	if r.Step == nil {
		return errs
	}
	if r.Step.Sign() <= 0 {
		return append(errs, field.Invalid(path.Child("step"), r.Step.String(), "must be greater than zero"))
	}
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(capacity) > 0 {
		errs = append(errs, field.Invalid(path.Child("step"), r.Step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), capacity.String())))
	}
	if unsafe := validateInt64(r, preset, path); len(unsafe) > 0 {
		return append(errs, unsafe...)
	}
	errs = append(errs, validateSteps(preset, r, path.Child("step"))...)
	if r.Max != nil {
		errs = append(errs, validateSteps(*r.Max, r, path.Child("step"))...)
	}
	return errs
}

// validateInt64 refuses amounts that an int64 cannot hold: one could read as 0, and be divided by.
func validateInt64(r *resourcev1.CapacityRequestPolicyRange, preset resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, amount := range []struct {
		name  string
		value *resource.Quantity
	}{{"default", &preset}, {"min", r.Min}, {"max", r.Max}, {"step", r.Step}} {
		q, at := amount.value, path.Child(amount.name)
		switch {
		case q == nil:
		case q.Sign() < 0:
			errs = append(errs, field.Invalid(at, q.String(), validation.IsNegativeErrorMsg))
		case q.CmpInt64(math.MaxInt64) > 0:
			errs = append(errs, field.Invalid(at, q.String(), fmt.Sprintf("must not be larger than %d", int64(math.MaxInt64))))
		}
	}
	return errs
}

// validateSteps computes in whole units, to which fractions are rounded up: their gate is off in 1.37.
func validateSteps(value resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, path *field.Path) field.ErrorList {
	if (value.Value()-r.Min.Value())%r.Step.Value() == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String()))}
}

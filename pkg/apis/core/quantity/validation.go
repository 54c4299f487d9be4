// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/ratchet"
)

// ValidateName accepts standard names and names with a domain.
func ValidateName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	if len(errs) == 0 && !strings.Contains(string(name), "/") && !IsStandard(name) {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return errs
}

// ValidateContainerName accepts what a container can request.
func ValidateContainerName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := ValidateName(name, path)
	switch {
	case !strings.Contains(string(name), "/"):
		if !IsStandardForContainers(name) {
			errs = append(errs, field.Invalid(path, name, "must be a standard resource for containers"))
		}
	case !IsNative(name) && !IsExtended(name):
		errs = append(errs, field.Invalid(path, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// ValidateNonNegative refuses amounts below zero.
func ValidateNonNegative(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() < 0 {
		return field.ErrorList{field.Invalid(path, q.String(), apivalidation.IsNegativeErrorMsg)}
	}
	return nil
}

// ValidateValue checks the amount of one resource.
func ValidateValue(name corev1.ResourceName, q resource.Quantity, path *field.Path) field.ErrorList {
	errs := ValidateNonNegative(q, path)
	if IsInteger(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q, "must be an integer"))
	}
	return errs
}

// validateHugePages refuses amounts that are no whole number of pages.
func validateHugePages(name corev1.ResourceName, q resource.Quantity, path *field.Path) field.ErrorList {
	if !IsHugePages(name) {
		return nil
	}
	size := strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix)
	page, err := resource.Quantity{}, error(nil)
	if !Expensive(size) {
		page, err = resource.ParseQuantity(size)
	}
	if err != nil || page.Sign() <= 0 || page.MilliValue()%1000 != 0 || q.Value()%page.Value() != 0 {
		return ratchet.Mark("huge pages", field.Invalid(path, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name)))
	}
	return nil
}

// Kind selects whose requirements are checked.
type Kind int

const (
	// Container requirements name anything that a container can request.
	Container Kind = iota
	// Pod requirements (KEP-2837) name cpu, memory and huge pages only.
	Pod
)

// ValidateRequirements checks requests and limits. Claims must be among claims, the pod's resource claims.
func ValidateRequirements(r *corev1.ResourceRequirements, kind Kind, claims sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	limits, requests := path.Child("limits"), path.Child("requests")
	huge, backed := false, false
	each := func(list corev1.ResourceList, in *field.Path, more func(corev1.ResourceName, resource.Quantity)) {
		for _, name := range Names(list) {
			q, p := list[name], in.Key(string(name))
			errs = append(errs, validateNameOf(kind, name, p)...)
			errs = append(errs, ValidateValue(name, q, p)...)
			errs = append(errs, validateHugePages(name, q, p)...)
			huge = huge || IsHugePages(name)
			backed = backed || name == corev1.ResourceCPU || name == corev1.ResourceMemory
			more(name, q)
		}
	}
	each(r.Limits, limits, func(corev1.ResourceName, resource.Quantity) {})
	each(r.Requests, requests, func(name corev1.ResourceName, q resource.Quantity) {
		limit, limited := r.Limits[name]
		switch {
		case limited && q.Cmp(limit) != 0 && !IsOvercommitAllowed(name):
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && q.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		case !limited && !IsOvercommitAllowed(name):
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		}
	})
	if huge && !backed {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return append(errs, validateClaims(r.Claims, claims, path.Child("claims"))...)
}

func validateNameOf(kind Kind, name corev1.ResourceName, path *field.Path) field.ErrorList {
	if kind == Container {
		return ValidateContainerName(name, path)
	}
	if errs := ValidateName(name, path); len(errs) > 0 || name == corev1.ResourceCPU || name == corev1.ResourceMemory || IsHugePages(name) {
		return errs
	}
	return field.ErrorList{field.NotSupported(path, name, []string{string(corev1.ResourceCPU), corev1.ResourceHugePagesPrefix, string(corev1.ResourceMemory)})}
}

// validateClaims checks which claims of the pod are used, each as a whole or by its requests, and no part twice.
func validateClaims(used []corev1.ResourceClaim, claims sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	whole, parts := sets.New[string](), map[string]sets.Set[string]{}
	for i, c := range used {
		p := path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(p, ""))
			continue
		}
		switch {
		case whole.Has(c.Name):
			errs = append(errs, field.Duplicate(p, c.Name))
		case c.Request == "":
			for range parts[c.Name] {
				errs = append(errs, field.Duplicate(p, c.Name))
			}
			whole.Insert(c.Name)
		default:
			for _, msg := range validation.IsDNS1123Label(c.Request) {
				errs = append(errs, field.Invalid(p.Child("request"), c.Request, msg))
			}
			if parts[c.Name].Has(c.Request) {
				errs = append(errs, field.Duplicate(p, c.Name+"/"+c.Request))
			}
			if parts[c.Name] == nil {
				parts[c.Name] = sets.New[string]()
			}
			parts[c.Name].Insert(c.Request)
		}
		if !claims.Has(c.Name) {
			missing := field.NotFound(p, c.Name)
			missing.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(claims) == 0 {
				missing.Detail += " which is empty"
			} else {
				missing.Detail += ": " + strings.Join(sets.List(claims), ", ")
			}
			errs = append(errs, missing)
		}
	}
	return errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package device holds the rules for what claims, classes and slices all say of devices: names, selectors, configuration,
// taints. Touch it when they change. See https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/.
package device

import (
	"regexp"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateDriver checks the name of a driver, which follows the rule of CSI's.
func ValidateDriver(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DriverNameMaxLength))
	}
	return append(errs, invalid(path, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

// ValidatePool checks the name of a pool: subdomains separated by slashes.
func ValidatePool(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, invalid(path, part, validation.IsDNS1123Subdomain(part))...)
	}
	return errs
}

// ValidateLabel checks the name of a device, a request or a counter: a DNS label.
func ValidateLabel(name string, path *field.Path) field.ErrorList {
	return invalid(path, name, validation.IsDNS1123Label(name))
}

// ValidateClass checks a reference to a DeviceClass.
func ValidateClass(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return invalid(path, name, validation.IsDNS1123Subdomain(name))
}

// ValidateLabelValue checks what may be the value of a label.
func ValidateLabelValue(value string, path *field.Path) field.ErrorList {
	return invalid(path, value, validation.IsValidLabelValue(value))
}

// ValidateQualifiedName checks the name of an attribute or capacity, which may have a domain. As upstream's, it lets names
// with two slashes pass.
func ValidateQualifiedName(name resourcev1.QualifiedName, path *field.Path) field.ErrorList {
	parts := strings.Split(string(name), "/")
	switch len(parts) {
	case 1:
		return validateIdentifier(parts[0], path)
	case 2:
		var errs field.ErrorList
		if parts[0] == "" {
			errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
		} else {
			errs = append(errs, ValidateDriver(parts[0], path)...)
		}
		if parts[1] == "" {
			return append(errs, field.Invalid(path, "", "the name must not be empty"))
		}
		return append(errs, validateIdentifier(parts[1], path)...)
	}
	return nil
}

// ValidateFullyQualifiedName checks a name that must have a domain.
func ValidateFullyQualifiedName(name resourcev1.FullyQualifiedName, path *field.Path) field.ErrorList {
	errs := ValidateQualifiedName(resourcev1.QualifiedName(name), path)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func validateIdentifier(id string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, invalid(path, id, content.IsCIdentifier(id))...)
}

var uid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ValidateUID checks the identifier of a share of a device.
func ValidateUID(id string, path *field.Path) field.ErrorList {
	if uid.MatchString(id) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, id, "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")}
}

func invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

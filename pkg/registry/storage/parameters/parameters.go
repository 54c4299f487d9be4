// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package parameters checks what classes of storage hand to a driver. Touch it when classes may say more to their drivers.
package parameters

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxKeys = 512
	maxSize = 256 << 10
)

// ValidateDriver checks the name of the driver or provisioner of a class.
func ValidateDriver(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(path, strings.ToLower(name), msg))
	}
	return errs
}

// Validate checks the parameters of a class.
func Validate(params map[string]string, path *field.Path) field.ErrorList {
	if len(params) > maxKeys {
		return field.ErrorList{field.TooLong(path, "", maxKeys)}
	}
	var errs field.ErrorList
	size := 0
	for key, value := range params {
		if key == "" {
			errs = append(errs, field.Invalid(path, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxSize {
		errs = append(errs, field.TooLong(path, "", maxSize))
	}
	return errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifestname keeps the names that are reserved for admission configuration from files of the server out of the
// API. Touch it when the reserved names change.
package manifestname

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	suffix  = ".static.k8s.io"
	message = "names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API"
)

// Validate refuses a reserved name.
func Validate(name string) field.ErrorList {
	if !strings.HasSuffix(name, suffix) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf(message, suffix))}
}

// Warnings are for the update of an object that has got such a name from an older server.
func Warnings(name string) []string {
	if !strings.HasSuffix(name, suffix) {
		return nil
	}
	return []string{"metadata.name: " + fmt.Sprintf(message, suffix)}
}

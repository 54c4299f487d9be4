// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package localpath checks paths that must stay below a directory: sub-paths of volumes, files in projected volumes,
// seccomp profiles. Touch it when the rule for such paths changes.
package localpath

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateNoBacksteps refuses paths with an element "..".
func ValidateNoBacksteps(target string, p *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(target, "/"), "..") {
		return field.ErrorList{field.Invalid(p, target, "must not contain '..'")}
	}
	return nil
}

// ValidateDescending refuses absolute paths too.
func ValidateDescending(target string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(target) {
		errs = append(errs, field.Invalid(p, target, "must be a relative path"))
	}
	return append(errs, ValidateNoBacksteps(target, p)...)
}

// ValidateNonReserved also refuses names that begin with "..", which the kubelet uses in the volumes that it fills.
func ValidateNonReserved(target string, p *field.Path) field.ErrorList {
	errs := ValidateDescending(target, p)
	if strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../") && target != ".." {
		errs = append(errs, field.Invalid(p, target, "must not start with '..'"))
	}
	return errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package securitycontext

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/localpath"
)

const maxProfilePath = 4095 // PATH_MAX without the final NUL

var (
	seccompTypes  = []corev1.SeccompProfileType{corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined}
	appArmorTypes = []corev1.AppArmorProfileType{corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined}
)

func validateSeccomp(s *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if s.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "type is required when seccompProfile is set"))
	} else {
		errs = append(errs, oneOf(&s.Type, seccompTypes, path.Child("type"))...)
	}
	p := path.Child("localhostProfile")
	switch local := s.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && s.LocalhostProfile == nil:
		errs = append(errs, field.Required(p, "must be set when seccomp type is Localhost"))
	case local:
		errs = append(errs, localpath.ValidateDescending(*s.LocalhostProfile, p)...)
	case s.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(p, s, "can only be set when seccomp type is Localhost"))
	}
	return errs
}

// ValidateAppArmor checks an AppArmor profile; nil is fine.
func ValidateAppArmor(a *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	p := path.Child("localhostProfile")
	switch a.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		return validateLocalAppArmor(a.LocalhostProfile, p)
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if a.LocalhostProfile != nil {
			return field.ErrorList{field.Invalid(p, *a.LocalhostProfile, "can only be set when AppArmor type is Localhost")}
		}
		return nil
	case "":
		return field.ErrorList{field.Required(path.Child("type"), "type is required when appArmorProfile is set")}
	}
	return field.ErrorList{field.NotSupported(path.Child("type"), a.Type, appArmorTypes)}
}

func validateLocalAppArmor(profile *string, path *field.Path) field.ErrorList {
	const missing = "must be set when AppArmor type is Localhost"
	if profile == nil {
		return field.ErrorList{field.Required(path, missing)}
	}
	var errs field.ErrorList
	switch trimmed := strings.TrimSpace(*profile); {
	case trimmed != *profile:
		errs = append(errs, field.Invalid(path, *profile, "must not be padded with whitespace"))
	case trimmed == "":
		errs = append(errs, field.Required(path, missing))
	}
	if len(*profile) > maxProfilePath {
		errs = append(errs, field.TooLong(path, "", maxProfilePath))
	}
	return errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/localpath"
	"minik8s.io/minik8s/pkg/apis/core/securitycontext"
)

// ValidateProfileAnnotations checks the annotations by which seccomp and AppArmor profiles were once chosen; path is
// that of the annotations.
func ValidateProfileAnnotations(annotations map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for key, value := range annotations {
		if key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix) {
			errs = append(errs, validateSeccompName(value, path.Child(key))...)
		}
		if name, ok := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix); ok {
			if !has(s, name) {
				errs = append(errs, field.Invalid(path.Key(key), name, "container not found"))
			}
			if !isAppArmorName(value) {
				errs = append(errs, field.Invalid(path.Key(key), value, fmt.Sprintf("invalid AppArmor profile name: %q", value)))
			}
		}
	}
	return errs
}

func has(s *corev1.PodSpec, name string) bool {
	for _, c := range All(s, nil) {
		if c.Name == name {
			return true
		}
	}
	return false
}

func validateSeccompName(name string, path *field.Path) field.ErrorList {
	switch name {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return nil
	}
	if local, ok := strings.CutPrefix(name, corev1.SeccompLocalhostProfileNamePrefix); ok {
		return localpath.ValidateDescending(local, path)
	}
	return field.ErrorList{field.Invalid(path, name, "must be a valid seccomp profile")}
}

func isAppArmorName(name string) bool {
	switch name {
	case "", corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return true
	}
	return strings.HasPrefix(name, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
}

// ValidateProfilesMatch refuses pods whose fields and annotations choose different profiles; path is that of the spec.
func ValidateProfilesMatch(annotations map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var pod corev1.PodSecurityContext
	if s.SecurityContext != nil {
		pod = *s.SecurityContext
	}
	if value, ok := annotations[corev1.SeccompPodAnnotationKey]; ok {
		errs = append(errs, matchSeccomp(value, pod.SeccompProfile, path.Child("securityContext", "seccompProfile"))...)
	}
	for p, c := range All(s, path) {
		sc := c.SecurityContext
		if sc == nil {
			sc = &corev1.SecurityContext{}
		}
		p = p.Child("securityContext")
		if value, ok := annotations[corev1.SeccompContainerAnnotationKeyPrefix+c.Name]; ok {
			errs = append(errs, matchSeccomp(value, sc.SeccompProfile, p.Child("seccompProfile"))...)
		}
		profile := sc.AppArmorProfile
		if profile == nil {
			profile = pod.AppArmorProfile
		}
		if value, ok := annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]; ok && profile != nil && !isWindows(s) {
			errs = append(errs, matchAppArmor(value, profile, p.Child("appArmorProfile"))...)
		}
	}
	return errs
}

func matchSeccomp(value string, s *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	ok := true
	switch s.Type {
	case corev1.SeccompProfileTypeUnconfined:
		ok = value == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		ok = value == corev1.SeccompProfileRuntimeDefault || value == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		var local string
		if local, ok = strings.CutPrefix(value, corev1.SeccompLocalhostProfileNamePrefix); ok && (s.LocalhostProfile == nil || *s.LocalhostProfile != local) {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "seccomp profile in annotation and field must match")}
		}
	}
	if !ok {
		return field.ErrorList{field.Forbidden(path.Child("type"), "seccomp type in annotation and field must match")}
	}
	return nil
}

func matchAppArmor(value string, a *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	ok := true
	switch a.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		ok = value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		ok = value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		var local string
		if local, ok = strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok && (a.LocalhostProfile == nil || *a.LocalhostProfile != local) {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "apparmor profile in annotation and field must match")}
		}
	}
	if !ok {
		return field.ErrorList{field.Forbidden(path.Child("type"), "apparmor type in annotation and field must match")}
	}
	return nil
}

func isWindows(s *corev1.PodSpec) bool { return s.OS != nil && s.OS.Name == corev1.Windows }

// SetAppArmorProfiles gives the containers whose AppArmor profile an annotation chooses the field for it (KEP-24), and
// returns the annotations that the field should replace.
func SetAppArmorProfiles(annotations map[string]string, s *corev1.PodSpec) (obsolete []string) {
	if isWindows(s) {
		return nil
	}
	var pod *corev1.AppArmorProfile
	if s.SecurityContext != nil {
		pod = s.SecurityContext.AppArmorProfile
	}
	for _, c := range All(s, nil) {
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		value, ok := annotations[key]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			continue
		}
		profile := AppArmorProfile(value)
		if len(securitycontext.ValidateAppArmor(profile, nil)) > 0 {
			profile = nil
		}
		if profile != nil && apiequality.Semantic.DeepEqual(profile, pod) {
			continue
		}
		obsolete = append(obsolete, key)
		if profile == nil {
			continue
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		c.SecurityContext.AppArmorProfile = profile
	}
	return obsolete
}

// AppArmorProfile is the field for an annotation; nil if there is none for it.
func AppArmorProfile(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	if local, ok := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok && local != "" {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	}
	return nil
}

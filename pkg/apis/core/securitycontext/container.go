// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package securitycontext

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var procMounts = []corev1.ProcMountType{corev1.DefaultProcMount, corev1.UnmaskedProcMount}

// SysAdmin is the capability that amounts to being root.
const SysAdmin = "CAP_SYS_ADMIN"

// ValidateContainer checks the security context of a container; nil is fine. hostUsers tells whether the pod has the
// node's user namespace, sysAdmin that a container may have that capability without escalating privileges, as an update
// may keep.
func ValidateContainer(sc *corev1.SecurityContext, hostUsers, sysAdmin bool, path *field.Path) field.ErrorList {
	if sc == nil {
		return nil
	}
	errs := validateID(sc.RunAsUser, validation.IsValidUserID, path.Child("runAsUser"))
	errs = append(errs, validateID(sc.RunAsGroup, validation.IsValidGroupID, path.Child("runAsGroup"))...)
	if m := sc.ProcMount; m != nil {
		errs = append(errs, oneOf(m, procMounts, path.Child("procMount"))...)
		if hostUsers && *m == corev1.UnmaskedProcMount {
			errs = append(errs, field.Invalid(path.Child("procMount"), *m, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	errs = append(errs, validateSeccomp(sc.SeccompProfile, path.Child("seccompProfile"))...)
	if a := sc.AllowPrivilegeEscalation; a != nil && !*a {
		if sc.Privileged != nil && *sc.Privileged {
			errs = append(errs, field.Invalid(path, sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if !sysAdmin && sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, SysAdmin) {
			errs = append(errs, field.Invalid(path, sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	errs = append(errs, validateWindows(sc.WindowsOptions, path.Child("windowsOptions"))...)
	return append(errs, ValidateAppArmor(sc.AppArmorProfile, path.Child("appArmorProfile"))...)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package securitycontext checks what a pod and its containers may do to the node. Touch it when a security setting is
// added.
package securitycontext

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/ratchet"
)

const (
	maxSysctlLength = 253
	sysctlRule      = "sysctls of the host's namespaces"
)

var (
	sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

	changePolicies  = []corev1.PodFSGroupChangePolicy{corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch}
	groupPolicies   = []corev1.SupplementalGroupsPolicy{corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict}
	selinuxPolicies = []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive}
)

// ValidatePod checks the security context of a pod and the namespaces that it shares with the node; path is that of
// the pod spec.
func ValidatePod(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	sc := spec.SecurityContext
	p := path.Child("securityContext")
	var errs field.ErrorList
	if s := spec.ShareProcessNamespace; s != nil && *s && spec.HostPID {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), *s, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	if sc == nil {
		return errs
	}
	errs = append(errs, validateID(sc.FSGroup, validation.IsValidGroupID, p.Child("fsGroup"))...)
	errs = append(errs, validateID(sc.RunAsUser, validation.IsValidUserID, p.Child("runAsUser"))...)
	errs = append(errs, validateID(sc.RunAsGroup, validation.IsValidGroupID, p.Child("runAsGroup"))...)
	for i, gid := range sc.SupplementalGroups {
		errs = append(errs, validateID(&gid, validation.IsValidGroupID, p.Child("supplementalGroups").Index(i))...)
	}
	errs = append(errs, validateSysctls(spec, p.Child("sysctls"))...)
	errs = append(errs, oneOf(sc.FSGroupChangePolicy, changePolicies, p.Child("fsGroupChangePolicy"))...)
	errs = append(errs, validateSeccomp(sc.SeccompProfile, p.Child("seccompProfile"))...)
	errs = append(errs, validateWindows(sc.WindowsOptions, p.Child("windowsOptions"))...)
	errs = append(errs, ValidateAppArmor(sc.AppArmorProfile, p.Child("appArmorProfile"))...)
	errs = append(errs, oneOf(sc.SupplementalGroupsPolicy, groupPolicies, p.Child("supplementalGroupsPolicy"))...)
	return append(errs, oneOf(sc.SELinuxChangePolicy, selinuxPolicies, p.Child("seLinuxChangePolicy"))...)
}

func validateID(id *int64, check func(int64) []string, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	var errs field.ErrorList
	for _, msg := range check(*id) {
		errs = append(errs, field.Invalid(path, *id, msg))
	}
	return errs
}

func oneOf[T ~string](value *T, allowed []T, path *field.Path) field.ErrorList {
	if value == nil || slices.Contains(allowed, *value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *value, allowed)}
}

func validateSysctls(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, s := range spec.SecurityContext.Sysctls {
		p := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(p, ""))
		case len(s.Name) > maxSysctlLength || !sysctlName.MatchString(s.Name):
			errs = append(errs, field.Invalid(p, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctlLength, sysctlName)))
		case seen.Has(s.Name):
			errs = append(errs, field.Duplicate(p, s.Name))
		}
		seen.Insert(s.Name)
		switch ns := SysctlNamespace(s.Name); {
		case ns == "net" && spec.HostNetwork:
			errs = append(errs, ratchet.Mark(sysctlRule, field.Invalid(p, s.Name, "may not be specified when 'hostNetwork' is true"))...)
		case ns == "ipc" && spec.HostIPC:
			errs = append(errs, ratchet.Mark(sysctlRule, field.Invalid(p, s.Name, "may not be specified when 'hostIPC' is true"))...)
		}
	}
	return errs
}

// SysctlNamespace is the Linux namespace that a sysctl belongs to: "net", "ipc", or "" for one of the whole node. Names
// may be separated by dots or slashes, as sysctl(8) takes them.
func SysctlNamespace(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		name = strings.NewReplacer(".", "/", "/", ".").Replace(name)
	}
	switch {
	case strings.HasPrefix(name, "net."):
		return "net"
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return "ipc"
	}
	return ""
}

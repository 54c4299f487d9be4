// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var systems = []corev1.OSName{corev1.Linux, corev1.Windows}

// validateOS refuses what the operating system that a pod names does not have (KEP-2802).
func validateOS(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.OS == nil {
		return nil
	}
	switch s.OS.Name {
	case "":
		return field.ErrorList{field.Required(path.Child("os", "name"), "")}
	case corev1.Linux:
		return validateLinux(s, path)
	case corev1.Windows:
		return validateWindows(s, path)
	}
	return field.ErrorList{field.NotSupported(path.Child("os"), s.OS.Name, systems)}
}

func validateLinux(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	const msg = "windows options cannot be set for a linux pod"
	var errs field.ErrorList
	if s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(path.Child("securityContext", "windowsOptions"), msg))
	}
	for p, c := range All(s, path) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			errs = append(errs, field.Forbidden(p.Child("securityContext", "windowsOptions"), msg))
		}
	}
	return errs
}

func validateWindows(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(p *field.Path, name string, set bool) {
		if set {
			errs = append(errs, field.Forbidden(p.Child(name), "cannot be set for a windows pod"))
		}
	}
	if sc := s.SecurityContext; sc != nil {
		p := path.Child("securityContext")
		forbid(p, "appArmorProfile", sc.AppArmorProfile != nil)
		forbid(p, "seLinuxOptions", sc.SELinuxOptions != nil)
		forbid(p, "seccompProfile", sc.SeccompProfile != nil)
		forbid(p, "fsGroup", sc.FSGroup != nil)
		forbid(p, "fsGroupChangePolicy", sc.FSGroupChangePolicy != nil)
		forbid(p, "sysctls", len(sc.Sysctls) > 0)
		forbid(p, "runAsUser", sc.RunAsUser != nil)
		forbid(p, "runAsGroup", sc.RunAsGroup != nil)
		forbid(p, "supplementalGroups", sc.SupplementalGroups != nil)
		forbid(p, "supplementalGroupsPolicy", sc.SupplementalGroupsPolicy != nil)
		forbid(p, "seLinuxChangePolicy", sc.SELinuxChangePolicy != nil)
	}
	forbid(path, "hostUsers", s.HostUsers != nil)
	forbid(path, "hostPID", s.HostPID)
	forbid(path, "hostIPC", s.HostIPC)
	forbid(path, "shareProcessNamespace", s.ShareProcessNamespace != nil)
	for p, c := range All(s, path) {
		sc := c.SecurityContext
		if sc == nil {
			continue
		}
		p = p.Child("securityContext")
		forbid(p, "appArmorProfile", sc.AppArmorProfile != nil)
		forbid(p, "seLinuxOptions", sc.SELinuxOptions != nil)
		forbid(p, "seccompProfile", sc.SeccompProfile != nil)
		forbid(p, "capabilities", sc.Capabilities != nil)
		forbid(p, "readOnlyRootFilesystem", sc.ReadOnlyRootFilesystem != nil)
		forbid(p, "privileged", sc.Privileged != nil)
		forbid(p, "allowPrivilegeEscalation", sc.AllowPrivilegeEscalation != nil)
		forbid(p, "procMount", sc.ProcMount != nil)
		forbid(p, "runAsUser", sc.RunAsUser != nil)
		forbid(p, "runAsGroup", sc.RunAsGroup != nil)
	}
	return errs
}

// validateHostProcess checks Windows containers that run as processes of the node (KEP-1981): all of a pod or none.
func validateHostProcess(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var pod *bool
	if s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil {
		pod = s.SecurityContext.WindowsOptions.HostProcess
	}
	all, onHost := 0, 0
	for p, c := range All(s, path) {
		all++
		own := pod
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil && sc.WindowsOptions.HostProcess != nil {
			own = sc.WindowsOptions.HostProcess
			if pod != nil && *pod != *own {
				errs = append(errs, field.Invalid(p.Child("securityContext", "windowsOptions", "hostProcess"), *own, fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *pod)))
			}
		}
		if own != nil && *own {
			onHost++
		}
	}
	if onHost == 0 {
		return errs
	}
	if onHost != all {
		errs = append(errs, field.Invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !s.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), s.HostNetwork, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}

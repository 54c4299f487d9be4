// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/container"
)

// prepareStatus keeps what a status write may not change or forget.
func prepareStatus(_ context.Context, p, old *corev1.Pod) {
	p.DeletionTimestamp = nil // the store puts it back
	p.OwnerReferences = old.OwnerReferences
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = old.Status.QOSClass
	}
	if p.Status.ObservedGeneration == 0 {
		p.Status.ObservedGeneration = old.Status.ObservedGeneration
	}
	observed := map[corev1.PodConditionType][]int64{}
	for _, c := range old.Status.Conditions {
		observed[c.Type] = append(observed[c.Type], c.ObservedGeneration)
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if before := observed[c.Type]; len(before) > 0 {
			if c.ObservedGeneration == 0 {
				c.ObservedGeneration = before[0]
			}
			observed[c.Type] = before[1:]
		}
	}
}

func validateStatus(_ context.Context, p, old *corev1.Pod) field.ErrorList {
	errs := validateAnnotationUpdate(p, old)
	for i, c := range p.Status.Conditions {
		for _, msg := range validation.IsQualifiedName(string(c.Type)) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "conditions").Index(i).Child("Type"), c.Type, msg))
		}
	}
	if n := p.Status.NominatedNodeName; n != "" && n != old.Status.NominatedNodeName {
		for _, msg := range apivalidation.NameIsDNSSubdomain(n, false) {
			errs = append(errs, field.Invalid(statusPath.Child("nominatedNodeName"), n, msg))
		}
	}
	errs = append(errs, apivalidation.ValidateImmutableField(p.Status.QOSClass, old.Status.QOSClass, statusPath.Child("qosClass"))...)
	errs = append(errs, validateTransitions(p, old)...)
	errs = append(errs, validatePodIPs(p.Status.PodIPs, statusPath.Child("podIPs"))...)
	return append(errs, validateHostIPs(&p.Status, statusPath.Child("hostIPs"))...)
}

// validateTransitions keeps containers that ended for good from coming back to life.
func validateTransitions(p, old *corev1.Pod) field.ErrorList {
	errs := transitions(p.Status.ContainerStatuses, old.Status.ContainerStatuses, old.Spec.Containers, old.Spec.RestartPolicy, statusPath.Child("containerStatuses"))
	errs = append(errs, transitions(p.Status.InitContainerStatuses, old.Status.InitContainerStatuses, old.Spec.InitContainers, old.Spec.RestartPolicy, statusPath.Child("initContainerStatuses"))...)
	return append(errs, transitions(p.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, nil, corev1.RestartPolicyNever, statusPath.Child("ephemeralContainerStatuses"))...)
}

func transitions(now, old []corev1.ContainerStatus, specs []corev1.Container, policy corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, o := range old {
		if o.State.Terminated == nil || mayRestart(o, specs, policy) {
			continue
		}
		back := func(n corev1.ContainerStatus) bool { return n.Name == o.Name && n.State.Terminated == nil }
		if slices.ContainsFunc(now, back) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
		}
	}
	return errs
}

// mayRestart tells whether a container that ended may start again, by its own policy or rules if it has such, else by
// the pod's.
func mayRestart(s corev1.ContainerStatus, specs []corev1.Container, policy corev1.RestartPolicy) bool {
	code := s.State.Terminated.ExitCode
	if i := slices.IndexFunc(specs, func(c corev1.Container) bool { return c.Name == s.Name }); i >= 0 {
		c := &specs[i]
		if container.Restartable(c) {
			return true
		}
		for _, r := range c.RestartPolicyRules {
			if r.ExitCodes != nil && slices.Contains(r.ExitCodes.Values, code) == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				return true
			}
		}
		if c.RestartPolicy != nil {
			policy = corev1.RestartPolicy(*c.RestartPolicy)
		}
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

func validatePodIPs(ips []corev1.PodIP, path *field.Path) field.ErrorList {
	addresses := make([]string, len(ips))
	for i := range ips {
		addresses[i] = ips[i].IP
	}
	return validateAddresses(addresses, ips, path)
}

func validateHostIPs(s *corev1.PodStatus, path *field.Path) field.ErrorList {
	if len(s.HostIPs) == 0 {
		return nil
	}
	var errs field.ErrorList
	if s.HostIP != s.HostIPs[0].IP {
		errs = append(errs, field.Invalid(path.Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`"))
	}
	addresses := make([]string, len(s.HostIPs))
	for i := range s.HostIPs {
		addresses[i] = s.HostIPs[i].IP
	}
	return append(errs, validateAddresses(addresses, s.HostIPs, path)...)
}

// validateAddresses allows one address of each family; shown is what an error about all of them tells.
func validateAddresses(addresses []string, shown any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen, families := sets.New[string](), sets.New[bool]()
	for i, a := range addresses {
		errs = append(errs, validation.IsValidIP(path.Index(i), a)...)
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
		seen.Insert(a)
		if ip, err := netip.ParseAddr(a); err == nil {
			families.Insert(ip.Is6())
		}
	}
	if len(addresses) > 1 && (len(addresses) > 2 || families.Len() < 2) {
		errs = append(errs, field.Invalid(path, shown, "may specify no more than one IP for each IP family"))
	}
	return errs
}

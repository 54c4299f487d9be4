// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
)

// prepareStatus keeps what a status write may not change or forget.
func prepareStatus(_ context.Context, p, old *corev1.Pod) {
	p.DeletionTimestamp = nil // the store puts it back
	p.OwnerReferences = old.OwnerReferences
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = old.Status.QOSClass
	}
	// Clients that do not know claims drop them; an empty list clears them.
	if p.Status.ResourceClaimStatuses == nil {
		p.Status.ResourceClaimStatuses = old.Status.ResourceClaimStatuses
	}
	if p.Status.ExtendedResourceClaimStatus == nil {
		p.Status.ExtendedResourceClaimStatus = old.Status.ExtendedResourceClaimStatus
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
	dropDisabled(p, &old.Spec)
}

func statusWarnings(_ context.Context, p, _ *corev1.Pod) []string {
	var out []string
	for i, ip := range p.Status.PodIPs {
		out = append(out, validation.GetWarningsForIP(statusPath.Child("podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range p.Status.HostIPs {
		out = append(out, validation.GetWarningsForIP(statusPath.Child("hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return out
}

func validateStatus(_ context.Context, p, old *corev1.Pod) field.ErrorList {
	errs := validateAnnotationUpdate(p, old)
	errs = append(errs, podtemplate.ValidateAnnotations(p.Annotations, old.Annotations, &p.Spec, annotationsPath)...)
	errs = append(errs, validateConditions(p.Status.Conditions, statusPath.Child("conditions"))...)
	errs = append(errs, validateNomination(p, old, statusPath.Child("nominatedNodeName"))...)
	if g := p.Status.ObservedGeneration; g < 0 {
		errs = append(errs, field.Invalid(statusPath.Child("observedGeneration"), g, notNegative))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(p.Status.QOSClass, old.Status.QOSClass, statusPath.Child("qosClass"))...)
	errs = append(errs, validateTransitions(p, old)...)
	errs = append(errs, validateClaimStatuses(p, statusPath.Child("resourceClaimStatuses"))...)
	errs = append(errs, validateExtendedClaim(p.Status.ExtendedResourceClaimStatus, &p.Spec, statusPath.Child("extendedResourceClaimStatus"))...)
	errs = append(errs, validatePodIPs(&p.Status, &old.Status, statusPath.Child("podIPs"))...)
	errs = append(errs, validateHostIPs(&p.Status, &old.Status, statusPath.Child("hostIPs"))...)
	for _, l := range []struct {
		name     string
		statuses []corev1.ContainerStatus
		specs    []corev1.Container
	}{
		{"containerStatuses", p.Status.ContainerStatuses, p.Spec.Containers},
		{"initContainerStatuses", p.Status.InitContainerStatuses, p.Spec.InitContainers},
		{ephemeralStatuses, p.Status.EphemeralContainerStatuses, nil},
	} {
		for i := range l.statuses {
			at := statusPath.Child(l.name).Index(i)
			errs = append(errs, validateUser(l.statuses[i].User, p.Spec.OS, at.Child("user", "linux"))...)
			if at = at.Child("allocatedResourcesStatus"); l.name != ephemeralStatuses {
				errs = append(errs, validateAllocated(&l.statuses[i], l.specs, p.Status.ExtendedResourceClaimStatus, at)...)
			} else if len(l.statuses[i].AllocatedResourcesStatus) > 0 {
				errs = append(errs, field.Forbidden(at, "must not be specified in container status"))
			}
		}
	}
	return errs
}

const (
	notNegative       = "must be a non-negative integer"
	ephemeralStatuses = "ephemeralContainerStatuses"
)

func validateConditions(conditions []corev1.PodCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range conditions {
		if c.ObservedGeneration < 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("observedGeneration"), c.ObservedGeneration, notNegative))
		}
		for _, msg := range validation.IsQualifiedName(string(c.Type)) {
			errs = append(errs, field.Invalid(path.Index(i).Child("Type"), c.Type, msg)) // upstream's spelling
		}
	}
	return errs
}

func validateNomination(p, old *corev1.Pod, path *field.Path) field.ErrorList {
	n := p.Status.NominatedNodeName
	if n == "" || n == old.Status.NominatedNodeName {
		return nil
	}
	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(n, false) {
		errs = append(errs, field.Invalid(path, n, msg))
	}
	if old.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(path, "may not be set on pods that are already bound to a node"))
	}
	return errs
}

// validateTransitions keeps containers that ended for good from coming back to life.
func validateTransitions(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	if !mayRestartAll(&old.Spec) {
		errs = transitions(p.Status.ContainerStatuses, old.Status.ContainerStatuses, old.Spec.Containers, old.Spec.RestartPolicy, statusPath.Child("containerStatuses"))
		errs = append(errs, transitions(p.Status.InitContainerStatuses, old.Status.InitContainerStatuses, old.Spec.InitContainers, old.Spec.RestartPolicy, statusPath.Child("initContainerStatuses"))...)
	}
	return append(errs, transitions(p.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, nil, "", statusPath.Child(ephemeralStatuses))...)
}

// mayRestartAll tells whether a container has a rule by which all are started again (KEP-5532).
func mayRestartAll(s *corev1.PodSpec) bool {
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		for _, r := range c.RestartPolicyRules {
			if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
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

// mayRestart tells whether a container that ended may start again, by its own rules or policy if it has such, else by
// the pod's. One that is not in the spec may not.
func mayRestart(s corev1.ContainerStatus, specs []corev1.Container, policy corev1.RestartPolicy) bool {
	code := s.State.Terminated.ExitCode
	i := slices.IndexFunc(specs, func(c corev1.Container) bool { return c.Name == s.Name })
	if i < 0 {
		return false
	}
	c := &specs[i]
	if c.RestartPolicy != nil {
		for _, r := range c.RestartPolicyRules {
			if r.ExitCodes != nil && slices.Contains(r.ExitCodes.Values, code) == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				return true
			}
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// validatePodIPs lets addresses stay that are not written as they should be.
func validatePodIPs(s, old *corev1.PodStatus, path *field.Path) field.ErrorList {
	errs := validateAddresses(podAddresses(s), podAddresses(old), s.PodIPs, path)
	switch {
	case (s.PodIP != "") != (len(s.PodIPs) > 0):
		errs = append(errs, field.Invalid(path, s.PodIPs, "podIP and podIPs must either both be set or both be unset"))
	case s.PodIP != "" && s.PodIP != s.PodIPs[0].IP:
		errs = append(errs, field.Invalid(path.Index(0).Child("ip"), s.PodIPs[0].IP, "must be equal to `podIP`"))
	}
	return errs
}

func validateHostIPs(s, old *corev1.PodStatus, path *field.Path) field.ErrorList {
	if len(s.HostIPs) == 0 {
		return nil
	}
	var errs field.ErrorList
	if s.HostIP != s.HostIPs[0].IP {
		errs = append(errs, field.Invalid(path.Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`"))
	}
	return append(errs, validateAddresses(hostAddresses(s), hostAddresses(old), s.HostIPs, path)...)
}

func podAddresses(s *corev1.PodStatus) []string {
	var addresses []string
	for _, ip := range s.PodIPs {
		addresses = append(addresses, ip.IP)
	}
	return addresses
}

func hostAddresses(s *corev1.PodStatus) []string {
	var addresses []string
	for _, ip := range s.HostIPs {
		addresses = append(addresses, ip.IP)
	}
	return addresses
}

// validateAddresses allows one address of each family; shown is what an error about all of them tells.
func validateAddresses(addresses, old []string, shown any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range addresses {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), a, true, old)...)
	}
	if len(addresses) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackIPStrings(addresses)
	if err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:%w", err)))
	}
	if !dual || len(addresses) > 2 {
		errs = append(errs, field.Invalid(path, shown, "may specify no more than one IP for each IP family"))
	}
	return errs
}

// validateUser checks whom a container runs as.
func validateUser(u *corev1.ContainerUser, os *corev1.PodOS, path *field.Path) field.ErrorList {
	if u == nil || u.Linux == nil {
		return nil
	}
	if os != nil && os.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(path, "cannot be set for a windows pod")}
	}
	var errs field.ErrorList
	if id := u.Linux.UID; id < 0 || id > math.MaxUint32 {
		errs = append(errs, field.Invalid(path.Child("uid"), id, fmt.Sprintf("must be between 0 and %d, inclusive", int64(math.MaxUint32))))
	}
	group := func(id int64, p *field.Path) {
		for _, msg := range validation.IsValidGroupID(id) {
			errs = append(errs, field.Invalid(p, id, msg))
		}
	}
	group(u.Linux.GID, path.Child("gid"))
	for i, id := range u.Linux.SupplementalGroups {
		group(id, path.Child("supplementalGroups").Index(i))
	}
	return errs
}

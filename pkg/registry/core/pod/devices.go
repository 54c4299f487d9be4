// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimPrefix begins the names of allocated resources that come from claims: claim:NAME or claim:NAME/REQUEST.
const claimPrefix = "claim:"

var healths = []corev1.ResourceHealthStatus{corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown}

// validateClaimStatuses checks which claims were made for the pod.
func validateClaimStatuses(p *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, s := range p.Status.ResourceClaimStatuses {
		at := path.Index(i)
		if !slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == s.Name }) {
			errs = append(errs, field.Invalid(at.Child("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if seen.Has(s.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), s.Name))
		}
		seen.Insert(s.Name)
		if s.ResourceClaimName != nil {
			for _, msg := range apivalidation.NameIsDNSSubdomain(*s.ResourceClaimName, false) {
				errs = append(errs, field.Invalid(at.Child("resourceClaimName"), *s.ResourceClaimName, msg))
			}
		}
	}
	return errs
}

// validateExtendedClaim checks the claim that was made for extended resources (KEP-5004).
func validateExtendedClaim(s *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	containers := map[string]corev1.Container{}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		containers[c.Name] = c
	}
	mappings := path.Child("requestMappings")
	if len(s.RequestMappings) == 0 {
		errs = append(errs, field.Required(mappings, "at least one request mapping is required"))
	}
	seen := sets.New[corev1.ContainerExtendedResourceRequest]()
	for i, m := range s.RequestMappings {
		at := mappings.Index(i)
		if c, ok := containers[m.ContainerName]; !ok {
			errs = append(errs, field.Invalid(at.Child("containerName"), m.ContainerName, "must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, ok := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; !ok {
			errs = append(errs, field.Invalid(at.Child("resourceName"), m.ResourceName, "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"))
		}
		for _, msg := range validation.IsDNS1123Label(m.RequestName) {
			errs = append(errs, field.Invalid(path.Child("requestName"), m.RequestName, msg)) // where upstream reports it
		}
		if seen.Has(m) {
			errs = append(errs, field.Duplicate(at.Child("containerName"), m.ContainerName),
				field.Duplicate(at.Child("resourceName"), m.ResourceName), field.Duplicate(at.Child("requestName"), m.RequestName))
		}
		seen.Insert(m)
	}
	name := path.Child("resourceClaimName")
	if s.ResourceClaimName == "" {
		return append(errs, field.Required(name, ""))
	}
	for _, msg := range apivalidation.NameIsDNSSubdomain(s.ResourceClaimName, false) {
		errs = append(errs, field.Invalid(name, s.ResourceClaimName, msg))
	}
	return errs
}

// validateAllocated checks what is told of the health of a container's devices (KEP-4680). specs are the containers of its
// kind.
func validateAllocated(s *corev1.ContainerStatus, specs []corev1.Container, extended *corev1.PodExtendedResourceClaimStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := slices.IndexFunc(specs, func(c corev1.Container) bool { return c.Name == s.Name })
	for i, r := range s.AllocatedResourcesStatus {
		p := path.Index(i)
		if at >= 0 {
			if why := notRequested(r.Name, &specs[at], extended); why != "" {
				errs = append(errs, field.Invalid(p.Child("name"), r.Name, why))
			}
		}
		errs = append(errs, validateHealth(r.Resources, p.Child("resources"))...)
	}
	return errs
}

// notRequested tells why a resource cannot be a container's.
func notRequested(name corev1.ResourceName, c *corev1.Container, extended *corev1.PodExtendedResourceClaimStatus) string {
	claim, ok := strings.CutPrefix(string(name), claimPrefix)
	if !ok {
		if _, ok := c.Resources.Requests[name]; ok {
			return ""
		}
		return "must match one of the container's resource requests"
	}
	for _, used := range c.Resources.Claims {
		if claim == used.Name && used.Request == "" || used.Request != "" && claim == used.Name+"/"+used.Request {
			return ""
		}
	}
	if of, request, ok := strings.Cut(claim, "/"); ok && request != "" && extended != nil && of != "" && of == extended.ResourceClaimName {
		for _, m := range extended.RequestMappings {
			q, ok := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]
			if ok && !q.IsZero() && m.ContainerName == c.Name && m.RequestName == request {
				return ""
			}
		}
	}
	return "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
}

func validateHealth(resources []corev1.ResourceHealth, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.ResourceID]()
	for i, r := range resources {
		p := path.Index(i)
		if !slices.Contains(healths, r.Health) {
			errs = append(errs, field.NotSupported(p.Child("health"), r.Health, healths))
		}
		if r.Message != nil {
			switch {
			case *r.Message == "":
				errs = append(errs, field.Required(p.Child("message"), "must be non-empty if specified"))
			case len(*r.Message) > corev1.ResourceHealthMessageMaxLength:
				errs = append(errs, field.TooLong(p.Child("message"), *r.Message, corev1.ResourceHealthMessageMaxLength))
			}
		}
		if seen.Has(r.ResourceID) {
			errs = append(errs, field.Duplicate(p.Child("resourceID"), r.ResourceID))
		}
		seen.Insert(r.ResourceID)
	}
	return errs
}

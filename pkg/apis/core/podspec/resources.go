// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// validateResources checks pod-level requests and limits (KEP-2837) against those of the containers.
func validateResources(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.Resources == nil {
		return nil
	}
	var errs field.ErrorList
	if s.Resources.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "claims cannot be set for Resources at pod-level"))
	}
	own := corev1.ResourceRequirements{Requests: s.Resources.Requests, Limits: s.Resources.Limits}
	errs = append(errs, quantity.ValidateRequirements(&own, quantity.Pod, nil, path)...)
	sum := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *s}, resourcehelper.PodResourcesOptions{})
	for _, name := range quantity.Names(sum) {
		if !resourcehelper.IsSupportedPodLevelResource(name) {
			continue
		}
		all, own := sum[name], s.Resources.Requests[name]
		if all.Cmp(own) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), own.String(), fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", all.String())))
		}
	}
	for i, c := range s.Containers {
		for _, name := range quantity.Names(c.Resources.Limits) {
			limit, pod := c.Resources.Limits[name], s.Resources.Limits[name]
			if _, ok := s.Resources.Limits[name]; ok && limit.Cmp(pod) > 0 {
				errs = append(errs, field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", pod.String())))
			}
		}
	}
	return errs
}

// SetPodLevelDefaults completes pod-level requests and limits that are given in part. It runs after the defaults of the
// containers, on pods only.
func SetPodLevelDefaults(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	opts := resourcehelper.PodResourcesOptions{}
	limits := r.Limits
	if limits == nil {
		limits = corev1.ResourceList{}
	}
	for name, sum := range resourcehelper.AggregateContainerLimits(pod, opts) {
		_, requested := r.Requests[name]
		_, limited := limits[name]
		if quantity.IsHugePages(name) && !requested && !limited {
			limits[name] = sum.DeepCopy()
		}
	}
	if len(limits) == 0 {
		return
	}
	r.Limits = limits
	requests := r.Requests
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	// What the containers request together counts first, then the pod's own limits.
	for name, sum := range resourcehelper.AggregateContainerRequests(pod, opts) {
		if _, ok := requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) && quantity.IsOvercommitAllowed(name) {
			requests[name] = sum.DeepCopy()
		}
	}
	for name, limit := range r.Limits {
		if _, ok := requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
			requests[name] = limit.DeepCopy()
		}
	}
	if len(requests) > 0 {
		r.Requests = requests
	}
}

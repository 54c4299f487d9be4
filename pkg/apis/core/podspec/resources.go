// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// validateResources checks pod-level requests and limits (KEP-2837) against those of the containers.
func validateResources(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	r := s.Resources
	if r == nil {
		return nil
	}
	if s.OS != nil && s.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(path, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, quantity.ValidateRequirements(r, quantity.Pod, claimNames(s), path)...)
	pod, opts := &corev1.Pod{Spec: *s}, resourcehelper.PodResourcesOptions{}
	atLeast := func(sum, own corev1.ResourceList, kind string, only func(corev1.ResourceName) bool) {
		for _, name := range quantity.Names(sum) {
			all := sum[name]
			if q, ok := own[name]; ok && only(name) && all.Cmp(q) > 0 {
				errs = append(errs, field.Invalid(path.Child(kind).Key(string(name)), q.String(), fmt.Sprintf("must be greater than or equal to aggregate container %s of %s", kind, all.String())))
			}
		}
	}
	atLeast(resourcehelper.AggregateContainerRequests(pod, opts), r.Requests, "requests", func(corev1.ResourceName) bool { return true })
	// Of huge pages a container takes all that it may, so that the limits add up.
	atLeast(resourcehelper.AggregateContainerLimits(pod, opts), r.Limits, "limits", quantity.IsHugePages)
	for i, c := range s.Containers {
		for _, name := range quantity.Names(c.Resources.Limits) {
			limit := c.Resources.Limits[name]
			if most, ok := r.Limits[name]; ok && limit.Cmp(most) > 0 {
				errs = append(errs, field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", most.String())))
			}
		}
	}
	return errs
}

// SetPodLevelDefaults completes pod-level requests and limits that are given in part. It runs when all containers are
// there, those of webhooks too.
func SetPodLevelDefaults(s *corev1.PodSpec) {
	r := s.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	pod, opts := &corev1.Pod{Spec: corev1.PodSpec{Containers: s.Containers, InitContainers: s.InitContainers}}, resourcehelper.PodResourcesOptions{}
	limits := resourcehelper.AggregateContainerLimits(pod, opts)
	for name, sum := range limits {
		if _, requested := r.Requests[name]; !requested && quantity.IsHugePages(name) {
			setMissing(&r.Limits, name, sum)
		}
	}
	// What the containers request together counts first, then the pod's own limits.
	for name, sum := range resourcehelper.AggregateContainerRequests(pod, opts) {
		if resourcehelper.IsSupportedPodLevelResource(name) && quantity.IsOvercommitAllowed(name) {
			setMissing(&r.Requests, name, sum)
		}
	}
	for name, limit := range r.Limits {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			setMissing(&r.Requests, name, limit)
		}
	}
	for name, request := range r.Requests {
		sum, ok := limits[name]
		if !ok || !resourcehelper.IsSupportedPodLevelResource(name) || !limitedEverywhere(s, name) {
			continue
		}
		if request.Cmp(sum) > 0 {
			sum = request
		}
		setMissing(&r.Limits, name, sum)
	}
}

func setMissing(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = q.DeepCopy()
}

// limitedEverywhere tells whether every container has a limit of a resource, so that the pod has one in effect.
func limitedEverywhere(s *corev1.PodSpec, name corev1.ResourceName) bool {
	for _, c := range All(s, nil) {
		if _, ok := c.Resources.Limits[name]; !ok {
			return false
		}
	}
	return true
}

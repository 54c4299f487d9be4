// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	resourcehelper "k8s.io/component-helpers/resource"
)

// checkPod compares a pod and its containers with a limit range. It reports all violations.
func checkPod(pod *corev1.Pod, r *corev1.LimitRange) error {
	var errs []error
	for _, limit := range r.Spec.Limits {
		switch limit.Type {
		case corev1.LimitTypeContainer:
			for _, c := range pod.Spec.Containers {
				errs = append(errs, bounded{limit.Type, c.Resources.Requests, c.Resources.Limits}.check(limit)...)
			}
			for _, c := range pod.Spec.InitContainers {
				errs = append(errs, bounded{limit.Type, c.Resources.Requests, c.Resources.Limits}.check(limit)...)
			}
		case corev1.LimitTypePod:
			// What sandboxes need besides is not the user's to bound.
			o := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
			errs = append(errs, bounded{limit.Type, resourcehelper.PodRequests(pod, o), resourcehelper.PodLimits(pod, o)}.check(limit)...)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// bounded is something whose resources are bounded.
type bounded struct {
	kind             corev1.LimitType
	requests, limits corev1.ResourceList
}

func (b bounded) check(l corev1.LimitRangeItem) []error {
	var errs []error
	for name, q := range l.Min {
		errs = append(errs, b.min(name, q))
	}
	for name, q := range l.Max {
		errs = append(errs, b.max(name, q))
	}
	for name, q := range l.MaxLimitRequestRatio {
		errs = append(errs, b.ratio(name, q))
	}
	return errs
}

func (b bounded) min(name corev1.ResourceName, bound resource.Quantity) error {
	request, hasRequest := b.requests[name]
	limit, hasLimit := b.limits[name]
	switch {
	case !hasRequest:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, b.kind, bound.String())
	case request.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, b.kind, bound.String(), request.String())
	case hasLimit && limit.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, b.kind, bound.String(), limit.String())
	}
	return nil
}

func (b bounded) max(name corev1.ResourceName, bound resource.Quantity) error {
	request, hasRequest := b.requests[name]
	limit, hasLimit := b.limits[name]
	switch {
	case !hasLimit:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, b.kind, bound.String())
	case limit.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, b.kind, bound.String(), limit.String())
	case hasRequest && request.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, b.kind, bound.String(), request.String())
	}
	return nil
}

// maxRequest is max for what has no limits (claims).
func (b bounded) maxRequest(name corev1.ResourceName, bound resource.Quantity) error {
	request, ok := b.requests[name]
	switch {
	case !ok:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, b.kind, bound.String())
	case request.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, b.kind, bound.String(), request.String())
	}
	return nil
}

func (b bounded) ratio(name corev1.ResourceName, bound resource.Quantity) error {
	request, hasRequest := b.requests[name]
	limit, hasLimit := b.limits[name]
	switch {
	case !hasRequest || request.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, b.kind, bound.String())
	case !hasLimit || limit.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, b.kind, bound.String())
	}
	if got := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); got > bound.AsApproximateFloat64() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, b.kind, bound.String(), got)
	}
	return nil
}

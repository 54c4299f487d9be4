// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim holds what ResourceClaims and their templates share: the devices that are asked for. Touch it when a
// request may say something new.
package claim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// SetDefaults makes a request that does not say how many devices it wants one for a single device.
func SetDefaults(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			setCount(&e.AllocationMode, &e.Count)
			device.SetTolerationDefaults(e.Tolerations)
		}
		for j := range r.FirstAvailable {
			sub := &r.FirstAvailable[j]
			setCount(&sub.AllocationMode, &sub.Count)
			device.SetTolerationDefaults(sub.Tolerations)
		}
	}
}

func setCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

// DropDisabled takes away the fields whose gate is off in 1.37: derived attributes.
func DropDisabled(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = nil
		}
		for j := range r.FirstAvailable {
			r.FirstAvailable[j].DerivedAttributes = nil
		}
	}
}

// AuthorizeAdmin lets only claims in namespaces which are marked for it ask for devices that others use. As upstream, it
// names the same path in claims and templates.
func AuthorizeAdmin(ctx context.Context, c registry.Config, namespace string, s *resourcev1.ResourceClaimSpec) field.ErrorList {
	i := slices.IndexFunc(s.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	})
	if i < 0 {
		return nil
	}
	return RequireAdminNamespace(ctx, c, namespace, field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess"))
}

// RequireAdminNamespace refuses admin access at the path unless the namespace is marked for it.
func RequireAdminNamespace(ctx context.Context, c registry.Config, namespace string, path *field.Path) field.ErrorList {
	store, err := c.Stores.Get(corev1.Resource("namespaces"))
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	obj, err := store.Get(genericapirequest.WithNamespace(ctx, metav1.NamespaceNone), namespace, &metav1.GetOptions{})
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	}
	if obj.(*corev1.Namespace).Labels[resourcev1.DRAAdminNamespaceLabelKey] == "true" {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))}
}

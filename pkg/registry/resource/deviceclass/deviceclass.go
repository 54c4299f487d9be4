// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package deviceclass serves DeviceClasses: kinds of devices by which claims ask. Touch it when their rules change.
package deviceclass

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// Resource describes deviceclasses.
var Resource = &registry.Resource[*resourcev1.DeviceClass]{
	Kind:          resourcev1.SchemeGroupVersion.WithKind("DeviceClass"),
	Name:          "deviceclasses",
	ClusterScoped: true,
	New:           func() *resourcev1.DeviceClass { return &resourcev1.DeviceClass{} },
	NewList:       func() runtime.Object { return &resourcev1.DeviceClassList{} },
	ReturnDeleted: true,
	Spec:          func(c *resourcev1.DeviceClass) any { return c.Spec },
	ValidateName: func(name string, prefix bool) []string {
		if prefix { // checked with the name that is made of it
			return nil
		}
		return validation.NameIsDNSSubdomain(name, false)
	},
	Validate: func(_ context.Context, c *resourcev1.DeviceClass) field.ErrorList {
		return validate(&c.Spec, nil)
	},
	ValidateUpdate: func(_ context.Context, c, old *resourcev1.DeviceClass) field.ErrorList {
		return validate(&c.Spec, &old.Spec)
	},
}

// validate checks a class; old is nil on create. Lists that are as they were have been found valid before.
func validate(spec, old *resourcev1.DeviceClassSpec) field.ErrorList {
	path := field.NewPath("spec")
	sameSelectors := old != nil && apiequality.Semantic.DeepEqual(spec.Selectors, old.Selectors)
	sameConfig := old != nil && apiequality.Semantic.DeepEqual(spec.Config, old.Config)
	errs := device.ValidateSelectors(spec.Selectors, sameSelectors, path.Child("selectors"))
	errs = append(errs, device.ValidateSlice(spec.Config, resourcev1.DeviceConfigMaxSize,
		func(c resourcev1.DeviceClassConfiguration, path *field.Path) field.ErrorList {
			return device.ValidateConfiguration(c.DeviceConfiguration, sameConfig, path)
		}, path.Child("config"))...)
	if name := spec.ExtendedResourceName; name != nil && !quantity.IsExtended(corev1.ResourceName(*name)) {
		errs = append(errs, field.Invalid(path.Child("extendedResourceName"), *name, "must be a valid extended resource name"))
	}
	return errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package devicetaintrule serves DeviceTaintRules: taints that an administrator puts on devices. Touch it when their rules
// change.
package devicetaintrule

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

var docs = resourcev1.DeviceTaint{}.SwaggerDoc()

// Resource describes devicetaintrules.
var Resource = &registry.Resource[*resourcev1.DeviceTaintRule]{
	Kind:                   resourcev1.SchemeGroupVersion.WithKind("DeviceTaintRule"),
	Name:                   "devicetaintrules",
	ClusterScoped:          true,
	New:                    func() *resourcev1.DeviceTaintRule { return &resourcev1.DeviceTaintRule{} },
	NewList:                func() runtime.Object { return &resourcev1.DeviceTaintRuleList{} },
	RequireResourceVersion: true,
	Default:                func(r *resourcev1.DeviceTaintRule) { device.SetTaintDefaults(&r.Spec.Taint) },
	Spec:                   func(r *resourcev1.DeviceTaintRule) any { return r.Spec },
	PrepareForUpdate:       renewTime,
	Validate: func(_ context.Context, r *resourcev1.DeviceTaintRule) field.ErrorList {
		return validate(&r.Spec, nil)
	},
	ValidateUpdate: func(_ context.Context, r, old *resourcev1.DeviceTaintRule) field.ErrorList {
		return validate(&r.Spec, &old.Spec.Taint)
	},
	Status: &registry.Status[*resourcev1.DeviceTaintRule]{
		KeepMetadata: true,
		Validate:     validateStatus,
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Key", "string", docs["key"]),
		registry.Column("Value", "string", docs["value"]),
		registry.Column("Effect", "string", docs["effect"]),
		registry.Column("TimeAdded", "string", docs["timeAdded"]),
		registry.AgeColumn,
	},
	Row: func(r *resourcev1.DeviceTaintRule) []any {
		t, added := r.Spec.Taint, ""
		if t.TimeAdded != nil {
			added = registry.Age(*t.TimeAdded)
		}
		return []any{r.Name, t.Key, t.Value, string(t.Effect), added, registry.Age(r.CreationTimestamp)}
	},
}

// renewTime makes the time of the taint that of its effect: how long it is tolerated counts from there.
func renewTime(_ context.Context, r, old *resourcev1.DeviceTaintRule) {
	t, was := &r.Spec.Taint, &old.Spec.Taint
	if t.Effect != was.Effect && t.TimeAdded.Equal(was.TimeAdded) {
		t.TimeAdded = device.Now()
	}
}

// validate checks a rule; old is the taint before an update.
func validate(spec *resourcev1.DeviceTaintRuleSpec, old *resourcev1.DeviceTaint) field.ErrorList {
	path := field.NewPath("spec")
	errs := device.ValidateTaint(&spec.Taint, old, path.Child("taint"))
	s := spec.DeviceSelector
	if s == nil {
		return errs
	}
	path = path.Child("deviceSelector")
	if s.Driver != nil {
		errs = append(errs, device.ValidateDriver(*s.Driver, path.Child("driver"))...)
	}
	if s.Pool != nil {
		errs = append(errs, device.ValidatePool(*s.Pool, path.Child("pool"))...)
	}
	if s.Device != nil {
		errs = append(errs, device.ValidateLabel(*s.Device, path.Child("device"))...)
	}
	return errs
}

func validateStatus(_ context.Context, r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	path := field.NewPath("status", "conditions")
	errs := metav1validation.ValidateConditions(r.Status.Conditions, path)
	if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		errs = append(errs, field.TooMany(path, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	return errs
}

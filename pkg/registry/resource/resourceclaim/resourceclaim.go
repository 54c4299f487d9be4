// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourceclaim serves ResourceClaims: devices that pods ask for and, in the status, which ones they got. Touch it
// when their rules change; what claims and templates share is in claim.
package resourceclaim

import (
	"context"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/claim"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// Resource describes resourceclaims.
var Resource = &registry.Resource[*resourcev1.ResourceClaim]{
	Kind:          resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"),
	Name:          "resourceclaims",
	New:           func() *resourcev1.ResourceClaim { return &resourcev1.ResourceClaim{} },
	NewList:       func() runtime.Object { return &resourcev1.ResourceClaimList{} },
	ReturnDeleted: true,
	Default:       setDefaults,
	PrepareForCreate: func(_ context.Context, c *resourcev1.ResourceClaim) {
		claim.DropDisabled(&c.Spec)
	},
	PrepareForUpdate: func(_ context.Context, c, _ *resourcev1.ResourceClaim) {
		claim.DropDisabled(&c.Spec)
	},
	Validate: func(_ context.Context, c *resourcev1.ResourceClaim) field.ErrorList {
		return claim.Validate(&c.Spec, field.NewPath("spec"))
	},
	ValidateUpdate: func(_ context.Context, c, old *resourcev1.ResourceClaim) field.ErrorList {
		errs := validation.ValidateObjectMeta(&c.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
		return append(errs, validation.ValidateImmutableField(c.Spec, old.Spec, field.NewPath("spec"))...)
	},
	Authorize: func(ctx context.Context, c registry.Config, rc, old *resourcev1.ResourceClaim, _ field.ErrorList) field.ErrorList {
		if old != nil { // the spec is as it was
			return nil
		}
		return claim.AuthorizeAdmin(ctx, c, rc.Namespace, &rc.Spec)
	},
	Status: &registry.Status[*resourcev1.ResourceClaim]{
		KeepMetadata:     true,
		PrepareForUpdate: prepareStatus,
		Validate:         validateStatus,
		Authorize:        authorizeStatus,
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.)."),
		registry.AgeColumn,
	},
	Row: func(c *resourcev1.ResourceClaim) []any {
		return []any{c.Name, state(c), registry.Age(c.CreationTimestamp)}
	},
}

func setDefaults(c *resourcev1.ResourceClaim) {
	claim.SetDefaults(&c.Spec)
	if a := c.Status.Allocation; a != nil {
		for i := range a.Devices.Results {
			device.SetTolerationDefaults(a.Devices.Results[i].Tolerations)
		}
	}
}

func state(c *resourcev1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}

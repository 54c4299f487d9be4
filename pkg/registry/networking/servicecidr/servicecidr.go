// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package servicecidr serves ServiceCIDRs: the ranges that ClusterIPs come from. Touch it when their rules change; the
// allocator of Services reads them, and whether one can go is for a controller to say.
package servicecidr

import (
	"context"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"minik8s.io/minik8s/pkg/registry"
)

// Default is the name of the one that is made from the server's configuration.
const Default = "kubernetes"

var docs = networkingv1.ServiceCIDRSpec{}.SwaggerDoc()

// Resource describes servicecidrs.
var Resource = &registry.Resource[*networkingv1.ServiceCIDR]{
	Kind:           networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
	Name:           "servicecidrs",
	ClusterScoped:  true,
	New:            func() *networkingv1.ServiceCIDR { return &networkingv1.ServiceCIDR{} },
	NewList:        func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Status: &registry.Status[*networkingv1.ServiceCIDR]{
		KeepMetadata: true,
	},
	Columns: []metav1.TableColumnDefinition{registry.NameColumn, registry.Column("CIDRs", "string", docs["cidrs"]), registry.AgeColumn},
	Row: func(c *networkingv1.ServiceCIDR) []any {
		return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), registry.Age(c.CreationTimestamp)}
	},
}

func validate(_ context.Context, c *networkingv1.ServiceCIDR) field.ErrorList {
	path, cidrs := field.NewPath("spec", "cidrs"), c.Spec.CIDRs
	switch {
	case len(cidrs) == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case len(cidrs) > 2:
		return field.ErrorList{field.Invalid(path, c.Spec, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, cidr := range cidrs {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), cidr)...)
	}
	if len(cidrs) == 2 {
		family := netutils.IPFamilyOfCIDRString(cidrs[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(cidrs[1]) {
			errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}

// validateUpdate lets a range of the other family be added and nothing else change.
func validateUpdate(ctx context.Context, c, old *networkingv1.ServiceCIDR) field.ErrorList {
	path, now, was := field.NewPath("spec", "cidrs"), c.Spec.CIDRs, old.Spec.CIDRs
	upgrade := len(was) == 1 && len(now) == 2
	if len(now) != len(was) && !upgrade {
		return field.ErrorList{field.Invalid(path, now, apivalidation.FieldImmutableErrorMsg)}
	}
	var errs field.ErrorList
	for i := range was {
		if now[i] != was[i] {
			errs = append(errs, field.Invalid(path.Index(i), now[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	if upgrade {
		errs = append(errs, validate(ctx, c)...)
	}
	return errs
}

// IsReady tells whether addresses may be taken from it. Nobody may have said so yet: that counts as ready.
func IsReady(c *networkingv1.ServiceCIDR) bool {
	if c.DeletionTimestamp != nil {
		return false
	}
	i := slices.IndexFunc(c.Status.Conditions, func(s metav1.Condition) bool { return s.Type == networkingv1.ServiceCIDRConditionReady })
	return i < 0 || c.Status.Conditions[i].Status == metav1.ConditionTrue
}

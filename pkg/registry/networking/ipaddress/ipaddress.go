// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ipaddress serves IPAddresses: each is one address that belongs to somebody, and its name is the address, so that
// nobody else can have it. The allocator of Services makes them. Touch it when their rules change.
package ipaddress

import (
	"context"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

var docs = networkingv1.IPAddressSpec{}.SwaggerDoc()

// Resource describes ipaddresses.
var Resource = &registry.Resource[*networkingv1.IPAddress]{
	Kind:           networkingv1.SchemeGroupVersion.WithKind("IPAddress"),
	Name:           "ipaddresses",
	ShortNames:     []string{"ip"},
	ClusterScoped:  true,
	New:            func() *networkingv1.IPAddress { return &networkingv1.IPAddress{} },
	NewList:        func() runtime.Object { return &networkingv1.IPAddressList{} },
	ValidateName:   validateName,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	// Upstream has a cell for the age and no column.
	Columns: []metav1.TableColumnDefinition{registry.NameColumn, registry.Column("ParentRef", "string", docs["parentRef"])},
	Row: func(ip *networkingv1.IPAddress) []any {
		return []any{ip.Name, parent(ip.Spec.ParentRef), registry.Age(ip.CreationTimestamp)}
	},
}

func parent(r *networkingv1.ParentReference) string {
	if r == nil {
		return "<none>"
	}
	out := strings.ToLower(schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())
	if r.Namespace != "" {
		out += "/" + r.Namespace
	}
	return out + "/" + r.Name
}

// validateName wants the address in its canonical form: two spellings would be two owners.
func validateName(name string, _ bool) []string {
	var msgs []string
	for _, err := range validation.IsValidIP(nil, name) {
		msgs = append(msgs, err.Detail)
	}
	return msgs
}

func validate(_ context.Context, ip *networkingv1.IPAddress) field.ErrorList {
	path, r := field.NewPath("spec", "parentRef"), ip.Spec.ParentRef
	if r == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	check := func(name, value string, msgs []string) {
		for _, msg := range msgs {
			errs = append(errs, field.Invalid(path.Child(name), value, msg))
		}
	}
	if r.Group != "" {
		check("group", r.Group, validation.IsDNS1123Subdomain(r.Group))
	}
	for _, f := range []struct{ name, value string }{{"resource", r.Resource}, {"name", r.Name}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), ""))
		} else {
			check(f.name, f.value, content.IsPathSegmentName(f.value))
		}
	}
	if r.Namespace != "" {
		check("namespace", r.Namespace, content.IsPathSegmentName(r.Namespace))
	}
	return errs
}

func validateUpdate(ctx context.Context, ip, old *networkingv1.IPAddress) field.ErrorList {
	errs := append(validate(ctx, ip), registry.ValidateMetadata(ip, false, validateName)...)
	return append(errs, apivalidation.ValidateImmutableField(ip.Spec.ParentRef, old.Spec.ParentRef, field.NewPath("spec", "parentRef"))...)
}

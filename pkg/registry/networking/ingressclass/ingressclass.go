// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ingressclass serves IngressClasses: names for the controllers that serve Ingresses. Touch it when their rules
// change; the default class is put into Ingresses by the admission plugin DefaultIngressClass.
package ingressclass

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes ingressclasses.
var Resource = &registry.Resource[*networkingv1.IngressClass]{
	Kind:          networkingv1.SchemeGroupVersion.WithKind("IngressClass"),
	Name:          "ingressclasses",
	ClusterScoped: true,
	New:           func() *networkingv1.IngressClass { return &networkingv1.IngressClass{} },
	NewList:       func() runtime.Object { return &networkingv1.IngressClassList{} },
	Default: func(c *networkingv1.IngressClass) {
		if p := c.Spec.Parameters; p != nil && p.Scope == nil {
			p.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	},
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Spec:           func(c *networkingv1.IngressClass) any { return c.Spec },
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Controller", "string", "Controller that is responsible for handling this class"),
		registry.Column("Parameters", "string", "A reference to a resource with additional parameters"),
		registry.AgeColumn,
	},
	Row: row,
}

func row(c *networkingv1.IngressClass) []any {
	name, parameters := c.Name, "<none>"
	if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
		name += " (default)"
	}
	if p := c.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{name, c.Spec.Controller, parameters, registry.Age(c.CreationTimestamp)}
}

func validate(_ context.Context, c *networkingv1.IngressClass) field.ErrorList {
	const longest = 250
	var errs field.ErrorList
	at := field.NewPath("spec", "controller")
	if len(c.Spec.Controller) > longest {
		errs = append(errs, field.TooLong(at, "", longest))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(at, c.Spec.Controller)...)
	if p := c.Spec.Parameters; p != nil {
		errs = append(errs, validateParameters(p, field.NewPath("spec", "parameters"))...)
	}
	return errs
}

func validateUpdate(ctx context.Context, c, old *networkingv1.IngressClass) field.ErrorList {
	errs := apivalidation.ValidateImmutableField(c.Spec.Controller, old.Spec.Controller, field.NewPath("spec", "controller"))
	errs = append(errs, registry.ValidateMetadata(c, false, apivalidation.NameIsDNSSubdomain)...)
	return append(errs, validate(ctx, c)...)
}

func validateParameters(p *networkingv1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(name, value string, msgs []string) {
		for _, msg := range msgs {
			errs = append(errs, field.Invalid(path.Child(name), value, msg))
		}
	}
	if p.APIGroup != nil {
		check("apiGroup", *p.APIGroup, validation.IsDNS1123Subdomain(*p.APIGroup))
	}
	for _, f := range []struct{ name, value string }{{"kind", p.Kind}, {"name", p.Name}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), ""))
		} else {
			check(f.name, f.value, content.IsPathSegmentName(f.value))
		}
	}
	if p.Scope == nil {
		return append(errs, field.Required(path.Child("scope"), ""))
	}
	const cluster, namespaced = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
	scopes := []string{cluster, namespaced}
	switch namespace := path.Child("namespace"); {
	case !slices.Contains(scopes, *p.Scope):
		errs = append(errs, field.NotSupported(path.Child("scope"), *p.Scope, scopes))
	case *p.Scope == cluster && p.Namespace != nil:
		errs = append(errs, field.Forbidden(namespace, "`parameters.scope` is set to 'Cluster'"))
	case *p.Scope == namespaced && p.Namespace == nil:
		errs = append(errs, field.Required(namespace, "`parameters.scope` is set to 'Namespace'"))
	case *p.Scope == namespaced:
		check("namespace", *p.Namespace, apivalidation.ValidateNamespaceName(*p.Namespace, false))
	}
	return errs
}

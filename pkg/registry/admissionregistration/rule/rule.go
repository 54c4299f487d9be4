// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rule holds what webhooks and policies share in saying which requests they see: groups, versions, resources and
// operations. Touch it when these rules change.
package rule

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	scopes     = []admissionv1.ScopeType{admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}
	operations = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update}
)

// SetDefaults makes a rule that names no scope one for all scopes.
func SetDefaults(r *admissionv1.Rule) {
	if r.Scope == nil {
		r.Scope = new(admissionv1.AllScopes)
	}
}

// Validate checks one rule.
func Validate(r *admissionv1.RuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ops := path.Child("operations")
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(ops, ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		errs = append(errs, field.Invalid(ops, r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, op := range r.Operations {
		if !slices.Contains(operations, op) {
			errs = append(errs, field.NotSupported(ops.Index(i), op, operations))
		}
	}
	errs = append(errs, validateNames(r.APIGroups, "API groups", path.Child("apiGroups"))...)
	errs = append(errs, validateNames(r.APIVersions, "API versions", path.Child("apiVersions"))...)
	for i, version := range r.APIVersions {
		if version == "" { // an empty group is the core group
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(r.Resources, path.Child("resources"))...)
	if r.Scope != nil && !slices.Contains(scopes, *r.Scope) {
		errs = append(errs, field.NotSupported(path.Child("scope"), *r.Scope, scopes))
	}
	return errs
}

func validateNames(names []string, what string, path *field.Path) field.ErrorList {
	if len(names) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(names) > 1 && slices.Contains(names, "*") {
		return field.ErrorList{field.Invalid(path, names, fmt.Sprintf("if '*' is present, must not specify other %s", what))}
	}
	return nil
}

// validateResources refuses a resource that an earlier wildcard already stands for.
func validateResources(resources []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	allOf, everywhere := sets.New[string](), sets.New[string]() // resources with all subresources, subresources of all resources
	bare := false
	for i, resource := range resources {
		if resource == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		name, sub, found := strings.Cut(resource, "/")
		if !found {
			bare = resource != "*"
			continue
		}
		if allOf.Has(name) {
			errs = append(errs, field.Invalid(path.Index(i), resource, fmt.Sprintf("if '%s/*' is present, must not specify %s", name, resource)))
		}
		if everywhere.Has(sub) {
			errs = append(errs, field.Invalid(path.Index(i), resource, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, resource)))
		}
		if sub == "*" {
			allOf.Insert(name)
		}
		if name == "*" {
			everywhere.Insert(sub)
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if bare && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

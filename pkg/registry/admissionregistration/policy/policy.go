// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy holds what validating and mutating admission policies and their bindings share: matching, parameters,
// variables and who may use which parameters. Touch it when these rules change. See
// https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/.
package policy

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/expression"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/rule"
)

var (
	failurePolicies = []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matchPolicies   = []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}
	// mutable are the operations that a mutating policy can act in: what is deleted is not changed.
	mutable = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update}
)

// SetMatchDefaults makes a policy or binding that does not select match everything. m may be nil.
func SetMatchDefaults(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	if m.MatchPolicy == nil {
		m.MatchPolicy = new(admissionv1.Equivalent)
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range m.ResourceRules {
		rule.SetDefaults(&m.ResourceRules[i].Rule)
	}
	for i := range m.ExcludeResourceRules {
		rule.SetDefaults(&m.ExcludeResourceRules[i].Rule)
	}
}

// ValidateMatch checks which requests a policy or binding is for. m may be nil.
func ValidateMatch(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	switch p := m.MatchPolicy; {
	case p == nil:
		errs = append(errs, field.Required(path.Child("matchPolicy"), ""))
	case !slices.Contains(matchPolicies, *p):
		errs = append(errs, field.NotSupported(path.Child("matchPolicy"), *p, matchPolicies))
	}
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{{"namespaceSelector", m.NamespaceSelector}, {"objectSelector", m.ObjectSelector}} {
		if s.selector == nil {
			errs = append(errs, field.Required(path.Child(s.name), ""))
			continue
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(s.selector, metav1validation.LabelSelectorValidationOptions{}, path.Child(s.name))...)
	}
	for i := range m.ResourceRules {
		errs = append(errs, validateNamedRule(&m.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(&m.ExcludeResourceRules[i], path.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func validateNamedRule(r *admissionv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, name := range r.ResourceNames {
		at := path.Child("resourceNames").Index(i)
		for _, msg := range content.IsPathSegmentName(name) {
			errs = append(errs, field.Invalid(at, name, msg))
		}
		if names.Has(name) {
			errs = append(errs, field.Duplicate(at, name))
		}
		names.Insert(name)
	}
	return append(errs, rule.Validate(&r.RuleWithOperations, path)...)
}

// ValidateConstraints checks what a policy matches: it has to say something, or nobody could know the types in its
// expressions.
func ValidateConstraints(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := ValidateMatch(m, path)
	if len(m.ResourceRules) == 0 {
		errs = append(errs, field.Required(path.Child("resourceRules"), ""))
	}
	return errs
}

// ValidateMutable refuses operations in which nothing can be changed. m may be nil.
func ValidateMutable(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	for _, r := range m.ResourceRules {
		for _, op := range r.Operations {
			if !slices.Contains(mutable, op) {
				errs = append(errs, field.NotSupported(path.Child("resourceRules", "operations"), op, mutable))
			}
		}
	}
	return errs
}

// ValidateFailurePolicy checks what happens to a request whose evaluation fails.
func ValidateFailurePolicy(p *admissionv1.FailurePolicyType, path *field.Path) field.ErrorList {
	switch {
	case p == nil:
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(failurePolicies, *p):
		return field.ErrorList{field.NotSupported(path, *p, failurePolicies)}
	}
	return nil
}

// ValidatePolicyName checks which policy a binding is of.
func ValidatePolicyName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range validation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// ValidateVariables checks the variables of a policy and makes them known to the compiler of its other expressions.
func ValidateVariables(c *plugincel.CompositedCompiler, variables []admissionv1.Variable, hasParams bool, stored expression.Stored, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range variables {
		at := path.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !isIdentifier(v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
			continue
		}
		accessor := &validating.Variable{Name: v.Name, Expression: v.Expression}
		options := plugincel.OptionalVariableDeclarations{HasParams: hasParams, HasAuthorizer: true}
		if r := c.CompileAndStoreVariable(accessor, options, expression.Environment(v.Expression, stored)); r.Error != nil {
			errs = append(errs, expression.Error(r.Error, v.Expression, at.Child("expression")))
		}
	}
	return errs
}

// reserved are the words of CEL and of languages that it may borrow from.
var reserved = sets.New("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
	"import", "let", "loop", "package", "namespace", "return", "var", "void", "while")

func isIdentifier(name string) bool {
	return len(content.IsCIdentifier(name)) == 0 && !reserved.Has(name)
}

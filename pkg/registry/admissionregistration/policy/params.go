// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

const unset = "<unset>"

// KindCell is what tables show of the kind of a policy's parameters.
func KindCell(k *admissionv1.ParamKind) string {
	if k == nil {
		return unset
	}
	return k.APIVersion + "/" + k.Kind
}

// RefCell is what tables show of a binding's parameters. Whether they are in a namespace is not known here.
func RefCell(r *admissionv1.ParamRef) string {
	switch {
	case r == nil:
		return unset
	case r.Name != "" && r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r.Name != "":
		return "*/" + r.Name
	case r.Selector != nil:
		return r.Selector.String()
	}
	return unset
}

// ValidateKind checks the kind of a policy's parameters. k may be nil.
func ValidateKind(k *admissionv1.ParamKind, path *field.Path) field.ErrorList {
	if k == nil {
		return nil
	}
	errs := validateAPIVersion(k.APIVersion, path.Child("apiVersion"))
	if k.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), ""))
	}
	if msgs := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}

func validateAPIVersion(apiVersion string, path *field.Path) field.ErrorList {
	if apiVersion == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if strings.Count(apiVersion, "/") > 1 {
		return field.ErrorList{field.Invalid(path, apiVersion, "unexpected GroupVersion string: "+apiVersion)}
	}
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	var errs field.ErrorList
	if group != "" {
		if msgs := validation.IsDNS1123Subdomain(group); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path, group, strings.Join(msgs, ",")))
		}
	}
	if version == "" {
		return append(errs, field.Invalid(path, apiVersion, "version must be specified"))
	}
	if msgs := validation.IsDNS1035Label(version); len(msgs) > 0 {
		errs = append(errs, field.Invalid(path, version, strings.Join(msgs, ",")))
	}
	return errs
}

// ValidateRef checks which parameters a binding names. r may be nil.
func ValidateRef(r *admissionv1.ParamRef, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	const both = "name and selector are mutually exclusive"
	if r.Name != "" {
		for _, msg := range content.IsPathSegmentName(r.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), r.Name, msg))
		}
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), both), field.Forbidden(path.Child("selector"), both))
		}
	}
	if r.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(r.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	actions := []admissionv1.ParameterNotFoundActionType{admissionv1.DenyAction, admissionv1.AllowAction}
	switch a := r.ParameterNotFoundAction; {
	case a == nil || *a == "":
		errs = append(errs, field.Required(path.Child("parameterNotFoundAction"), ""))
	case !slices.Contains(actions, *a):
		errs = append(errs, field.NotSupported(path.Child("parameterNotFoundAction"), *a, actions))
	}
	return errs
}

// BindingColumns are those of both kinds of binding.
var BindingColumns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to"),
	registry.Column("ParamRef", "string", "ParamRef indicates the param resource which sets the configuration param"),
	registry.AgeColumn,
}

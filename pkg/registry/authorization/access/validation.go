// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Invalid is the answer to a question with errors. It names the group but no kind, as upstream's does.
func Invalid(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

// ValidateMetadata refuses metadata: reviews are not objects. The namespace is that of the URL.
func ValidateMetadata(m metav1.ObjectMeta, namespace string) field.ErrorList {
	rest := m
	rest.ManagedFields = nil
	want, text := metav1.ObjectMeta{}, "must be empty"
	if namespace != "" {
		rest.Namespace, text = "", "must be empty except for namespace"
	}
	if !apiequality.Semantic.DeepEqual(rest, want) {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, text)}
	}
	return nil
}

// ValidateSubject checks the spec of a review about somebody.
func ValidateSubject(spec authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := ValidateQuestion(Question{spec.ResourceAttributes, spec.NonResourceAttributes}, path)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(path.Child("user"), spec.User, "at least one of user or group must be specified"))
	}
	return errs
}

// ValidateQuestion checks that one thing is asked.
func ValidateQuestion(q Question, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (q.Resource == nil) == (q.NonResource == nil) {
		errs = append(errs, field.Invalid(path, q.NonResource, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if q.Resource == nil {
		return errs
	}
	path = path.Child("resourceAttributes")
	if f := q.Resource.FieldSelector; f != nil {
		errs = append(errs, validateFieldSelector(f, path.Child("fieldSelector"))...)
	}
	if l := q.Resource.LabelSelector; l != nil {
		errs = append(errs, validateLabelSelector(l, path.Child("labelSelector"))...)
	}
	return errs
}

func validateFieldSelector(f *authorizationv1.FieldSelectorAttributes, path *field.Path) field.ErrorList {
	errs := oneForm(f.RawSelector, len(f.Requirements), path)
	for i, r := range f.Requirements {
		errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r,
			metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
	}
	return errs
}

func validateLabelSelector(l *authorizationv1.LabelSelectorAttributes, path *field.Path) field.ErrorList {
	errs := oneForm(l.RawSelector, len(l.Requirements), path)
	for i, r := range l.Requirements {
		errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r,
			metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
	}
	return errs
}

func oneForm(raw string, requirements int, path *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), "when "+path.String()+" is specified, requirements or rawSelector is required")}
	}
	return nil
}

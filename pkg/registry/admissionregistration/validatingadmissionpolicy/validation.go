// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package validatingadmissionpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/client-go/util/jsonpath"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/expression"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/policy"
)

const (
	maxAuditAnnotations = 20
	// maxValueExpression is less than an annotation may hold: what an expression yields is often longer than it is.
	maxValueExpression = 5 << 10
)

var reasons = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge}

// stored are the expressions of the old policy, by where they stand.
type stored struct{ conditions, validations, messages, annotations expression.Stored }

func storedIn(old *admissionv1.ValidatingAdmissionPolicy) stored {
	s := stored{expression.Stored{}, expression.Stored{}, expression.Stored{}, expression.Stored{}}
	if old == nil {
		return s
	}
	for _, c := range old.Spec.MatchConditions {
		s.conditions.Insert(c.Expression)
	}
	for _, v := range old.Spec.Validations {
		s.validations.Insert(v.Expression)
		s.messages.Insert(v.MessageExpression)
	}
	for _, a := range old.Spec.AuditAnnotations {
		s.annotations.Insert(a.ValueExpression)
	}
	return s
}

// validate checks a policy; old is nil on create.
func validate(p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	path, spec := field.NewPath("spec"), &p.Spec
	known := storedIn(old)
	errs := policy.ValidateFailurePolicy(spec.FailurePolicy, path.Child("failurePolicy"))
	errs = append(errs, policy.ValidateKind(spec.ParamKind, path.Child("paramKind"))...)
	errs = append(errs, policy.ValidateConstraints(spec.MatchConstraints, path.Child("matchConstraints"))...)
	// Conditions that are what they were are not looked at again.
	same := old != nil && apiequality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) && apiequality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions)
	if !same {
		errs = append(errs, expression.ValidateConditions(spec.MatchConditions, spec.ParamKind != nil, known.conditions, path.Child("matchConditions"))...)
	}
	v := validator{compiler: expression.Compiler(), hasParams: spec.ParamKind != nil, stored: known}
	if len(spec.Variables) > 0 {
		c, err := expression.NewCompositedCompiler()
		if err != nil {
			return append(errs, field.InternalError(path.Child("variables"), err))
		}
		v.compiler = c
		errs = append(errs, policy.ValidateVariables(c, spec.Variables, v.hasParams, known.validations, path.Child("variables"))...)
	}
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const neither = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(path.Child("validations"), neither), field.Required(path.Child("auditAnnotations"), neither))
	}
	for i := range spec.Validations {
		errs = append(errs, v.validation(&spec.Validations[i], path.Child("validations").Index(i))...)
	}
	return append(errs, v.annotations(p.Name, spec.AuditAnnotations, path.Child("auditAnnotations"))...)
}

// validator checks the expressions of one policy.
type validator struct {
	compiler  plugincel.Compiler
	hasParams bool
	stored    stored
}

func (v validator) validation(r *admissionv1.Validation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(r.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, expression.Validate(v.compiler, &validating.ValidationCondition{Expression: r.Expression},
			plugincel.OptionalVariableDeclarations{HasParams: v.hasParams, HasAuthorizer: true},
			expression.Environment(r.Expression, v.stored.validations), path.Child("expression"))...)
	}
	switch {
	case r.MessageExpression == "":
	case strings.TrimSpace(r.MessageExpression) == "":
		errs = append(errs, field.Invalid(path.Child("messageExpression"), r.MessageExpression, "must be non-empty if specified"))
	default:
		errs = append(errs, expression.Validate(v.compiler, &validating.MessageExpressionCondition{MessageExpression: r.MessageExpression},
			plugincel.OptionalVariableDeclarations{HasParams: v.hasParams},
			expression.Environment(r.MessageExpression, v.stored.messages), path.Child("messageExpression"))...)
	}
	switch text := strings.TrimSpace(r.Message); {
	case r.Message != "" && text == "":
		errs = append(errs, field.Invalid(path.Child("message"), r.Message, "must be non-empty if specified"))
	case strings.ContainsAny(text, "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), r.Message, "must not contain line breaks"))
	}
	if r.Reason != nil && !slices.Contains(reasons, *r.Reason) {
		errs = append(errs, field.NotSupported(path.Child("reason"), *r.Reason, reasons))
	}
	return errs
}

func (v validator) annotations(policyName string, annotations []admissionv1.AuditAnnotation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(annotations) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(path, annotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	keys := sets.New[string]()
	for i := range annotations {
		a := &annotations[i]
		errs = append(errs, v.annotation(policyName, a, path.Index(i))...)
		if keys.Has(a.Key) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("key"), a.Key))
		}
		keys.Insert(a.Key)
	}
	return errs
}

func (v validator) annotation(policyName string, a *admissionv1.AuditAnnotation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policyName == "" {
		errs = append(errs, field.Invalid(path.Child("key"), a.Key, "requires metadata.name be non-empty"))
	} else {
		for _, msg := range validation.IsQualifiedName(policyName + "/" + a.Key) {
			errs = append(errs, field.Invalid(path.Child("key"), policyName+"/"+a.Key, msg))
		}
	}
	at, text := path.Child("valueExpression"), strings.TrimSpace(a.ValueExpression)
	switch {
	case text == "":
		return append(errs, field.Required(at, "valueExpression is not specified"))
	case len(text) > maxValueExpression:
		return append(errs, field.Required(at, fmt.Sprintf("must not exceed %d bytes in length", maxValueExpression)))
	}
	return append(errs, expression.Validate(v.compiler, &validating.AuditAnnotationCondition{ValueExpression: text},
		plugincel.OptionalVariableDeclarations{HasParams: v.hasParams, HasAuthorizer: true},
		expression.Environment(a.ValueExpression, v.stored.annotations), at)...)
}

func validateStatus(_ context.Context, p, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	if t := p.Status.TypeChecking; t != nil {
		for i, w := range t.ExpressionWarnings {
			at := path.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			errs = append(errs, validateFieldRef(strings.TrimSpace(w.FieldRef), at.Child("fieldRef"))...)
		}
	}
	return append(errs, metav1validation.ValidateConditions(p.Status.Conditions, path.Child("conditions"))...)
}

func validateFieldRef(ref string, path *field.Path) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(path, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}

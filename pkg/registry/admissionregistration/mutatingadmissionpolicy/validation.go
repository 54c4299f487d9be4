// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mutatingadmissionpolicy

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/expression"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/policy"
)

var (
	patchTypes       = []admissionv1.PatchType{admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch}
	reinvokePolicies = []admissionv1.ReinvocationPolicyType{admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy}
)

// stored are the expressions of the old policy, by where they stand.
type stored struct{ conditions, mutations expression.Stored }

func storedIn(old *admissionv1.MutatingAdmissionPolicy) stored {
	s := stored{expression.Stored{}, expression.Stored{}}
	if old == nil {
		return s
	}
	for _, c := range old.Spec.MatchConditions {
		s.conditions.Insert(c.Expression)
	}
	for _, m := range old.Spec.Mutations {
		if m.ApplyConfiguration != nil {
			s.mutations.Insert(m.ApplyConfiguration.Expression)
		}
		if m.JSONPatch != nil {
			s.mutations.Insert(m.JSONPatch.Expression)
		}
	}
	return s
}

// validate checks a policy; old is nil on create.
func validate(p, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	path, spec := field.NewPath("spec"), &p.Spec
	known := storedIn(old)
	errs := policy.ValidateFailurePolicy(spec.FailurePolicy, path.Child("failurePolicy"))
	errs = append(errs, policy.ValidateKind(spec.ParamKind, path.Child("paramKind"))...)
	errs = append(errs, policy.ValidateConstraints(spec.MatchConstraints, path.Child("matchConstraints"))...)
	errs = append(errs, policy.ValidateMutable(spec.MatchConstraints, path.Child("matchConstraints"))...)
	// Conditions that are what they were are not looked at again.
	same := old != nil && apiequality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) && apiequality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions)
	if !same {
		errs = append(errs, expression.ValidateConditions(spec.MatchConditions, spec.ParamKind != nil, known.conditions, path.Child("matchConditions"))...)
	}
	switch r := spec.ReinvocationPolicy; {
	case r == "":
		errs = append(errs, field.Required(path.Child("reinvocationPolicy"), ""))
	case !slices.Contains(reinvokePolicies, r):
		errs = append(errs, field.NotSupported(path.Child("reinvocationPolicy"), r, reinvokePolicies))
	}
	c, err := expression.NewCompositedCompiler()
	if err != nil {
		return append(errs, field.InternalError(path.Child("variables"), err))
	}
	// Variables first: mutations speak of them.
	errs = append(errs, policy.ValidateVariables(c, spec.Variables, spec.ParamKind != nil, expression.Stored{}, path.Child("variables"))...)
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	v := validator{compiler: c, hasParams: spec.ParamKind != nil, stored: known.mutations}
	for i := range spec.Mutations {
		errs = append(errs, v.mutation(&spec.Mutations[i], path.Child("mutations").Index(i))...)
	}
	return errs
}

// validator checks the mutations of one policy.
type validator struct {
	compiler  plugincel.Compiler
	hasParams bool
	stored    expression.Stored
}

// mutation checks that the expression of the patch type is there, and no other.
func (v validator) mutation(m *admissionv1.Mutation, path *field.Path) field.ErrorList {
	if m.PatchType == "" {
		return field.ErrorList{field.Required(path.Child("patchType"), "")}
	}
	if !slices.Contains(patchTypes, m.PatchType) {
		return field.ErrorList{field.NotSupported(path.Child("patchType"), m.PatchType, patchTypes)}
	}
	var errs field.ErrorList
	for _, p := range []struct {
		kind     admissionv1.PatchType
		name     string
		present  bool
		validate func(path *field.Path) field.ErrorList
	}{
		{admissionv1.PatchTypeJSONPatch, "jsonPatch", m.JSONPatch != nil, func(path *field.Path) field.ErrorList {
			text := strings.TrimSpace(m.JSONPatch.Expression)
			return v.expression(m.JSONPatch.Expression, &patch.JSONPatchCondition{Expression: text}, path)
		}},
		{admissionv1.PatchTypeApplyConfiguration, "applyConfiguration", m.ApplyConfiguration != nil, func(path *field.Path) field.ErrorList {
			text := strings.TrimSpace(m.ApplyConfiguration.Expression)
			return v.expression(m.ApplyConfiguration.Expression, &patch.ApplyConfigurationCondition{Expression: text}, path)
		}},
	} {
		at, meant := path.Child(p.name), p.kind == m.PatchType
		switch {
		case meant && !p.present:
			errs = append(errs, field.Required(at, fmt.Sprintf("must be specified when patchType is %s", m.PatchType)))
		case meant:
			errs = append(errs, p.validate(at.Child("expression"))...)
		case p.present:
			errs = append(errs, field.Invalid(at, "{"+p.name+"}", fmt.Sprintf("must not be specified when patchType is %s", m.PatchType)))
		}
	}
	return errs
}

func (v validator) expression(text string, accessor plugincel.ExpressionAccessor, path *field.Path) field.ErrorList {
	if strings.TrimSpace(text) == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: v.hasParams, HasAuthorizer: true, HasPatchTypes: true}
	return expression.Validate(v.compiler, accessor, options, expression.Environment(text, v.stored), path)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package expression checks the CEL expressions of webhooks and admission policies. Touch it when they may say something
// new. See https://kubernetes.io/docs/reference/using-api/cel/.
package expression

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// maxConditions is how many match conditions one object may have.
const maxConditions = 64

// Stored are the expressions of the stored object. They may use what a newer server, since rolled back, has accepted; new
// ones may not.
type Stored = sets.Set[string]

// Environment is that in which the expression compiles.
func Environment(expression string, stored Stored) environment.Type {
	if stored.Has(expression) {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// Compiler returns the shared compiler of expressions without variables.
var Compiler = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// NewCompositedCompiler returns a compiler for one object whose expressions use its variables.
func NewCompositedCompiler() (*plugincel.CompositedCompiler, error) {
	return plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
}

// Validate compiles one expression.
func Validate(c plugincel.Compiler, e plugincel.ExpressionAccessor, vars plugincel.OptionalVariableDeclarations, env environment.Type, path *field.Path) field.ErrorList {
	if result := c.CompileCELExpression(e, vars, env); result.Error != nil {
		return field.ErrorList{Error(result.Error, e.GetExpression(), path)}
	}
	return nil
}

// Error is the cause that a compiler's error is reported as.
func Error(err error, expression string, path *field.Path) *field.Error {
	var e *cel.Error
	if !errors.As(err, &e) {
		return field.InternalError(path, fmt.Errorf("unsupported error type: %w", err))
	}
	switch e.Type {
	case cel.ErrorTypeRequired:
		return field.Required(path, e.Detail)
	case cel.ErrorTypeInvalid:
		return field.Invalid(path, expression, e.Detail)
	}
	return field.InternalError(path, e)
}

// ValidateConditions checks match conditions. hasParams tells that they may speak of parameters.
func ValidateConditions(conditions []admissionv1.MatchCondition, hasParams bool, stored Stored, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxConditions))
	}
	names := sets.New[string]()
	for i, c := range conditions {
		at := path.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			vars := plugincel.OptionalVariableDeclarations{HasParams: hasParams, HasAuthorizer: true}
			errs = append(errs, Validate(Compiler(), &matchconditions.MatchCondition{Expression: text}, vars, Environment(text, stored), at.Child("expression"))...)
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		for _, msg := range validation.IsQualifiedName(c.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, msg))
		}
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names.Insert(c.Name)
	}
	return errs
}

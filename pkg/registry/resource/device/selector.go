// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// features are what selectors may speak of, as the gates of 1.37 are set.
var features = dracel.Features{EnableConsumableCapacity: true}

// ValidateSelectors checks which devices are meant. The expressions of stored selectors have been found valid before and
// are not compiled again.
func ValidateSelectors(selectors []resourcev1.DeviceSelector, stored bool, path *field.Path) field.ErrorList {
	return ValidateSlice(selectors, resourcev1.DeviceSelectorsMaxSize, func(s resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
		switch {
		case s.CEL == nil:
			return field.ErrorList{field.Required(path.Child("cel"), "")}
		case stored:
			return nil
		}
		return validateExpression(s.CEL.Expression, path.Child("cel", "expression"))
	}, path)
}

func validateExpression(expression string, path *field.Path) field.ErrorList {
	if len(expression) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	result := dracel.GetCompiler(features).CompileCELExpression(expression, dracel.Options{EnvType: new(environment.NewExpressions)})
	switch {
	case result.Error != nil:
		return field.ErrorList{compileError(result.Error, expression, path)}
	case result.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(path, "too complex, exceeds cost limit")}
	}
	return nil
}

func compileError(err error, expression string, path *field.Path) *field.Error {
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validate(_ context.Context, c *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range c.Data {
		path := field.NewPath("data").Key(key)
		errs = append(errs, validateKey(key, path)...)
		if _, dup := c.BinaryData[key]; dup {
			errs = append(errs, field.Invalid(path, key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range c.BinaryData {
		errs = append(errs, validateKey(key, field.NewPath("binaryData").Key(key))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		// The value is left out on purpose: it would make the message a megabyte long.
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

func validateKey(key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path, key, msg))
	}
	return errs
}

func validateUpdate(ctx context.Context, c, old *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if old.Immutable != nil && *old.Immutable {
		const frozen = "field is immutable when `immutable` is set"
		if c.Immutable == nil || !*c.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), frozen))
		}
		if !apiequality.Semantic.DeepEqual(c.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), frozen))
		}
		if !apiequality.Semantic.DeepEqual(c.BinaryData, old.BinaryData) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), frozen))
		}
	}
	return append(errs, validate(ctx, c)...)
}

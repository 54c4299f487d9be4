// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestDistinct(t *testing.T) {
	t.Parallel()
	at := field.NewPath("metadata", "name")
	errs := distinct(field.ErrorList{field.Required(at, "must be set"), field.Required(at, "must be set"), field.Required(at, "must not be empty"), field.Invalid(at, "a", "must be set")})
	if len(errs) != 3 {
		t.Errorf("there are %v", errs)
	}
}

func TestWithDeclared(t *testing.T) {
	t.Parallel()
	at := field.NewPath("spec", "maxReplicas")
	own := field.ErrorList{
		field.Invalid(at, -1, "must be greater than 0"),
		field.Invalid(at, -1, "must not be less than another field").WithOrigin(Relation),
		field.Required(at, "must be set"),
	}
	declared := field.ErrorList{field.Invalid(at, -1, "must be greater than or equal to 1")}
	got := withDeclared(own, declared).ToAggregate().Error()
	want := field.ErrorList{
		field.Invalid(at, -1, "must not be less than another field"), field.Required(at, "must be set"), declared[0],
	}.ToAggregate().Error()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

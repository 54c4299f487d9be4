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

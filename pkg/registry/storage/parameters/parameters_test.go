// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package parameters

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidate(t *testing.T) {
	many := map[string]string{}
	for i := range maxKeys + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, tc := range map[string]struct {
		params map[string]string
		want   field.ErrorType
	}{
		"fine":      {map[string]string{"a": "b"}, ""},
		"empty key": {map[string]string{"": "b"}, field.ErrorTypeInvalid},
		"too many":  {many, field.ErrorTypeTooLong},
		"too long":  {map[string]string{"a": strings.Repeat("b", maxSize)}, field.ErrorTypeTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Validate(tc.params, field.NewPath("parameters"))
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || errs[0].Type != tc.want) {
				t.Errorf("errors are %v, want %q", errs, tc.want)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ratchet lets an update keep what its old object already violates, of rules that came later than the objects.
// Touch it never; mark the errors of such a rule where the rule is.
package ratchet

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const prefix = "ratchet/"

// Mark says that the errors come of a rule, given by a name, that old objects may go on to violate.
func Mark(rule string, errs ...*field.Error) field.ErrorList {
	return field.ErrorList(errs).WithOrigin(prefix + rule)
}

// Drop removes the errors of marked rules that the old object violates too; old is called only if there are such errors.
func Drop(errs field.ErrorList, old func() field.ErrorList) field.ErrorList {
	marked := func(e *field.Error) bool { return strings.HasPrefix(e.Origin, prefix) }
	if !slices.ContainsFunc(errs, marked) {
		return errs
	}
	before := old()
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return marked(e) && slices.ContainsFunc(before, func(o *field.Error) bool { return o.Origin == e.Origin })
	})
}

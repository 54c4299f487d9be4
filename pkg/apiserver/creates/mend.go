// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package creates

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/warning"
)

// mend undoes what webhooks may have done to an object and must not have, as the machinery's handler does.
func (o *object) mend(ctx context.Context) {
	if after := o.meta.GetManagedFields(); len(after) != 1 || after[0] != o.entry {
		if err := managedfields.ValidateManagedFields(after); err != nil {
			o.meta.SetManagedFields([]metav1.ManagedFieldsEntry{o.entry})
			warning.AddWarning(ctx, "", fmt.Sprintf(fieldmanager.InvalidManagedFieldsAfterMutatingAdmissionWarningFormat, err.Error()))
		}
	}
	if owners, twice := distinct(o.meta.GetOwnerReferences()); len(twice) > 0 {
		o.meta.SetOwnerReferences(owners)
		warning.AddWarning(ctx, "", fmt.Sprintf(handlers.DuplicateOwnerReferencesAfterMutatingAdmissionWarningFormat, strings.Join(twice, ", ")))
	}
}

// distinct returns owners without those that are there before, and the UIDs of these.
func distinct(owners []metav1.OwnerReference) (once []metav1.OwnerReference, twice []string) {
	for _, owner := range owners {
		if slices.ContainsFunc(once, func(other metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(other, owner) }) {
			twice = append(twice, string(owner.UID))
		} else {
			once = append(once, owner)
		}
	}
	return once, twice
}

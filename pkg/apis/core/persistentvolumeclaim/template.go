// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaim

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTemplate checks the claim template of an ephemeral volume. Of its metadata only labels and annotations are used,
// so nothing else may be there.
func ValidateTemplate(t *corev1.PersistentVolumeClaimTemplate, path *field.Path, keep Leniency) field.ErrorList {
	p := path.Child("metadata")
	errs := apivalidation.ValidateAnnotations(t.Annotations, p.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(t.Labels, p.Child("labels"))...)
	errs = append(errs, validateUnset(t.ObjectMeta, p)...)
	return append(errs, ValidateSpec(&t.Spec, path.Child("spec"), keep)...)
}

func validateUnset(m metav1.ObjectMeta, path *field.Path) field.ErrorList {
	m.Labels, m.Annotations = nil, nil
	var errs field.ErrorList
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name := v.Type().Field(i).Name // and not its JSON name: clients know "uID"
			errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), "cannot be set"))
		}
	}
	return errs
}

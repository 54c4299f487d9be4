// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageclass

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/storage/parameters"
)

var (
	reclaimPolicies = sets.New(corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	bindingModes    = sets.New(storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
)

func validate(_ context.Context, c *storagev1.StorageClass) field.ErrorList {
	errs := parameters.ValidateDriver(c.Provisioner, field.NewPath("provisioner"))
	errs = append(errs, parameters.Validate(c.Parameters, field.NewPath("parameters"))...)
	if p := c.ReclaimPolicy; *p != "" && !reclaimPolicies.Has(*p) {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), *p, sets.List(reclaimPolicies)))
	}
	if !bindingModes.Has(*c.VolumeBindingMode) {
		errs = append(errs, field.NotSupported(field.NewPath("volumeBindingMode"), *c.VolumeBindingMode, sets.List(bindingModes)))
	}
	return append(errs, validateTopologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func validateUpdate(ctx context.Context, c, old *storagev1.StorageClass) field.ErrorList {
	errs := append(validate(ctx, c), registry.ValidateMetadata(c, false, apivalidation.NameIsDNSSubdomain)...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, apivalidation.ValidateImmutableField(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

// validateTopologies refuses terms that say the same, whatever the order; an empty one is as good as none.
func validateTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := []map[string]sets.Set[string]{nil}
	for i, t := range terms {
		p := path.Index(i).Child("matchLabelExpressions")
		values, e := validateTerm(t.MatchLabelExpressions, p)
		errs = append(errs, e...)
		for _, other := range seen {
			if apiequality.Semantic.DeepEqual(values, other) {
				errs = append(errs, field.Duplicate(p, ""))
			}
		}
		seen = append(seen, values)
	}
	return errs
}

// validateTerm returns the values of a term by their keys.
func validateTerm(expressions []corev1.TopologySelectorLabelRequirement, path *field.Path) (map[string]sets.Set[string], field.ErrorList) {
	var errs field.ErrorList
	byKey := map[string]sets.Set[string]{}
	for i, e := range expressions {
		p := path.Index(i)
		if len(e.Values) == 0 {
			errs = append(errs, field.Required(p.Child("values"), ""))
		}
		values := sets.New[string]()
		for j, v := range e.Values {
			if values.Has(v) {
				errs = append(errs, field.Duplicate(p.Child("values").Index(j), v))
			}
			values.Insert(v)
		}
		errs = append(errs, metav1validation.ValidateLabelName(e.Key, p.Child("key"))...)
		if _, dup := byKey[e.Key]; dup {
			errs = append(errs, field.Duplicate(p.Child("key"), e.Key))
		}
		byKey[e.Key] = values
	}
	return byKey, errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"minik8s.io/minik8s/pkg/registry"
)

// FinalizeREST is the finalize subresource: the only way to change spec.finalizers. It serves PUT only.
type FinalizeREST struct {
	updater *genericregistry.Store
}

var (
	_ rest.Updater             = (*FinalizeREST)(nil)
	_ rest.ResetFieldsStrategy = (*FinalizeREST)(nil)
)

func newFinalizeREST(s *registry.Store[*corev1.Namespace]) *FinalizeREST {
	updater := *s.Store
	strategy := finalizeStrategy{registry.Subresource(s.UpdateStrategy)}
	updater.UpdateStrategy, updater.ResetFieldsStrategy = strategy, strategy
	return &FinalizeREST{updater: &updater}
}

// New implements rest.Storage.
func (r *FinalizeREST) New() runtime.Object { return &corev1.Namespace{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *FinalizeREST) Destroy() {}

// Update implements rest.Updater. It never creates.
func (r *FinalizeREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.updater.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *FinalizeREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.updater.GetResetFields()
}

// finalizeStrategy lets spec through and keeps status.
type finalizeStrategy struct{ registry.SubresourceStrategy }

func (finalizeStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	registry.KeepKind(obj, old)
	obj.(*corev1.Namespace).Status = old.(*corev1.Namespace).Status
}

func (finalizeStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	n := obj.(*corev1.Namespace)
	errs := registry.ValidateMetadataUpdate(n, old.(*corev1.Namespace))
	return append(errs, validateFinalizers(n, field.NewPath("spec", "finalizers").Index)...)
}

func (finalizeStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(corev1.SchemeGroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"minik8s.io/minik8s/pkg/registry"
)

// part is a subresource that writes only some fields of the spec.
type part struct {
	runtime.ObjectTyper
	rest.DeclarativeValidationStrategy // that of pods
	// restrict sets everything in p that may not be written back to old.
	restrict func(p, old *corev1.Pod)
	// refuse tells why the old pod cannot be changed at all, if so.
	refuse func(old *corev1.Pod) string
	// validate checks the update.
	validate func(p, old *corev1.Pod) field.ErrorList
}

var _ rest.RESTUpdateStrategy = part{}

func (s part) GenerateName(base string) string { return names.SimpleNameGenerator.GenerateName(base) }

func (s part) NamespaceScoped() bool { return true }

func (s part) AllowCreateOnUpdate(context.Context) bool { return false }

func (s part) AllowUnconditionalUpdate(context.Context) bool { return true }

func (s part) Canonicalize(runtime.Object) {}

func (s part) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string { return nil }

func (s part) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	p, o := obj.(*corev1.Pod), old.(*corev1.Pod)
	registry.KeepKind(p, o)
	s.restrict(p, o)
	dropDisabled(p, &o.Spec)
	if !apiequality.Semantic.DeepEqual(p.Spec, o.Spec) {
		p.Generation = o.Generation + 1
	}
}

func (s part) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	p, o := obj.(*corev1.Pod), old.(*corev1.Pod)
	if why := s.refuse(o); why != "" {
		return field.ErrorList{field.Forbidden(field.NewPath(""), why)}
	}
	errs := apivalidation.ValidateObjectMetaAccessorUpdate(p, o, field.NewPath("metadata"))
	errs = append(errs, validateAgain(p, o)...)
	return append(errs, s.validate(p, o)...)
}

// keepRest sets everything but the spec back.
func keepRest(p, old *corev1.Pod) {
	p.Status = old.Status
	metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
}

// PartREST is a subresource that reads the whole pod and writes a part of its spec.
type PartREST struct {
	store *genericregistry.Store
}

var _ rest.Patcher = (*PartREST)(nil)

func newPartREST(pods *genericregistry.Store, strategy part) *PartREST {
	store := *pods
	strategy.DeclarativeValidationStrategy = pods.UpdateStrategy.(rest.DeclarativeValidationStrategy)
	store.UpdateStrategy = strategy
	store.ResetFieldsStrategy = nil
	store.BeginUpdate, store.AfterUpdate = nil, nil
	return &PartREST{store: &store}
}

// New implements rest.Storage.
func (r *PartREST) New() runtime.Object { return &corev1.Pod{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *PartREST) Destroy() {}

// Get implements rest.Getter.
func (r *PartREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates.
func (r *PartREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, options)
}

func isMirror(p *corev1.Pod) bool {
	_, ok := p.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

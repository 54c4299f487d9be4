// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"reflect"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"minik8s.io/minik8s/pkg/apis/declarative"
)

// strategy adapts a Resource to what the generic store asks on create, update and delete.
type strategy[T Object] struct {
	runtime.ObjectTyper
	names.NameGenerator
	scheme *runtime.Scheme
	r      *Resource[T]
	config Config
}

var (
	_ rest.RESTCreateStrategy              = strategy[Object]{}
	_ rest.RESTUpdateStrategy              = strategy[Object]{}
	_ rest.GarbageCollectionDeleteStrategy = strategy[Object]{}
	_ rest.RESTUpdateStrategy              = statusStrategy[Object]{}
	_ rest.RESTGracefulDeleteStrategy      = gracefulStrategy[Object]{}
	_ rest.DeclarativeValidationStrategy   = strategy[Object]{}
)

func (s strategy[T]) NamespaceScoped() bool { return !s.r.ClusterScoped }

func (s strategy[T]) AllowCreateOnUpdate(context.Context) bool { return s.r.AllowCreateOnUpdate }

func (s strategy[T]) AllowUnconditionalUpdate(context.Context) bool {
	return !s.r.RequireResourceVersion
}

func (s strategy[T]) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	if s.r.DefaultGarbageCollection != "" {
		return s.r.DefaultGarbageCollection
	}
	return rest.DeleteDependents
}

func (s strategy[T]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	o := obj.(T)
	if s.r.Status != nil && !s.r.Status.OnCreate {
		copyStatus(o, s.r.New())
	}
	if s.r.Spec != nil {
		o.SetGeneration(1)
	}
	if s.r.PrepareForCreate != nil {
		s.r.PrepareForCreate(ctx, o)
	}
}

func (s strategy[T]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	n, o := obj.(T), old.(T)
	KeepKind(n, o)
	if s.r.Status != nil {
		copyStatus(n, o)
	}
	if s.r.PrepareForUpdate != nil {
		s.r.PrepareForUpdate(ctx, n, o)
	}
	s.bumpGeneration(n, o)
}

// SubresourceStrategy is what a subresource with a strategy of its own takes over from the resource.
type SubresourceStrategy struct {
	rest.RESTUpdateStrategy
	rest.DeclarativeValidationStrategy
}

// Subresource returns what a subresource takes over from the strategy of a Resource.
func Subresource(resource rest.RESTUpdateStrategy) SubresourceStrategy {
	return SubresourceStrategy{resource, resource.(rest.DeclarativeValidationStrategy)}
}

// KeepKind lets the new object say of its kind what the stored one does. Upstream's internal types say nothing; ours would
// differ by it, so that an object that is applied again was written again, for its managed fields have another time.
func KeepKind(obj, old runtime.Object) {
	obj.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
}

// bumpGeneration counts changes of the desired state, so that controllers can tell whether they have seen the latest.
// The store has already carried the old generation over.
func (s strategy[T]) bumpGeneration(n, o T) {
	if s.r.Spec == nil {
		return
	}
	changed := !apiequality.Semantic.DeepEqual(s.r.Spec(n), s.r.Spec(o)) ||
		s.r.GenerationOnAnnotations && !apiequality.Semantic.DeepEqual(n.GetAnnotations(), o.GetAnnotations())
	if changed {
		n.SetGeneration(o.GetGeneration() + 1)
	}
}

func (s strategy[T]) validateName() validation.ValidateNameFunc {
	if s.r.ValidateName != nil {
		return s.r.ValidateName
	}
	return validation.NameIsDNSSubdomain
}

func (s strategy[T]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	o := obj.(T)
	errs := s.r.Metadata.create(o, !s.r.ClusterScoped, s.validateName())
	if s.r.Validate != nil {
		errs = append(errs, s.r.Validate(ctx, o)...)
	}
	if s.r.Authorize != nil {
		var none T
		errs = append(errs, s.r.Authorize(ctx, s.config, o, none, errs)...)
	}
	return errs
}

func (s strategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	n, o := obj.(T), old.(T)
	errs := s.r.Metadata.update(n, o)
	if s.r.WholeUpdate {
		errs = append(errs, s.r.Metadata.create(n, !s.r.ClusterScoped, s.validateName())...)
	}
	switch {
	case s.r.ValidateUpdate != nil:
		errs = append(errs, s.r.ValidateUpdate(ctx, n, o)...)
	case s.r.Validate != nil:
		errs = append(errs, s.r.Validate(ctx, n)...)
	}
	if s.r.Authorize != nil {
		errs = append(errs, s.r.Authorize(ctx, s.config, n, o, errs)...)
	}
	return errs
}

// DeclarativeValidationConfig implements rest.DeclarativeValidationStrategy.
func (s strategy[T]) DeclarativeValidationConfig(context.Context, runtime.Object, runtime.Object) rest.DeclarativeValidationConfig {
	return rest.DeclarativeValidationConfig{Options: declarative.Options}
}

// Relation is the origin of what a resource's own validation says of a field because of another field's value. No tag of the
// field says it, so that it stays beside what tags say of the same field.
const Relation = "relation"

// ValidateDeclaratively adds what the tags of the type object to, and drops what the resource's own validation says of the
// same field a second time. The stored type is validated whatever version was sent: it has the tags of all versions.
func (s strategy[T]) ValidateDeclaratively(ctx context.Context, obj, old runtime.Object, own field.ErrorList, op operation.Type, config rest.DeclarativeValidationConfig) field.ErrorList {
	var subresources []string
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Subresource != "" {
		subresources = strings.Split(info.Subresource, "/")
	}
	var found field.ErrorList
	if op == operation.Create {
		found = s.scheme.Validate(ctx, config.Options, obj, subresources...)
	} else {
		found = s.scheme.ValidateUpdate(ctx, config.Options, obj, old, subresources...)
	}
	own = append(distinct(own), ValidateTimes(obj)...)
	found = validate.FilterEnforcedDeclarativeErrors(ctx, found, true)
	return withDeclared(own, found)
}

// withDeclared returns what tags say, after what a resource's own validation says and they do not.
func withDeclared(own, declared field.ErrorList) field.ErrorList {
	return append(slices.DeleteFunc(own, func(mine *field.Error) bool {
		return mine.Origin != Relation && slices.ContainsFunc(declared, func(theirs *field.Error) bool {
			return theirs.Type == mine.Type && theirs.Field == mine.Field
		})
	}), declared...)
}

// distinct leaves out what is said a second time: of metadata the machinery, the resource and the whole object's validation say
// the same, and upstream tells it once.
func distinct(errs field.ErrorList) field.ErrorList {
	seen := map[string]bool{}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		was := seen[e.Error()]
		seen[e.Error()] = true
		return was
	})
}

func (s strategy[T]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	if s.r.Warnings == nil {
		return nil
	}
	var none T
	return s.r.Warnings(ctx, obj.(T), none)
}

func (s strategy[T]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if s.r.Warnings == nil {
		return nil
	}
	return s.r.Warnings(ctx, obj.(T), old.(T))
}

func (s strategy[T]) Canonicalize(obj runtime.Object) {
	if s.r.Canonicalize != nil {
		s.r.Canonicalize(obj.(T))
	}
}

// GetResetFields keeps server-side apply from owning status through the main resource.
func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	switch {
	case s.r.ResetFields != nil:
		return s.reset(s.r.ResetFields...)
	case s.r.Status == nil:
		return nil
	}
	return s.reset("status")
}

func (s strategy[T]) reset(fields ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := &fieldpath.Set{}
	for _, f := range fields {
		var path []any
		for name := range strings.SplitSeq(f, ".") {
			path = append(path, name)
		}
		set.Insert(fieldpath.MakePathOrDie(path...))
	}
	sets := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.r.Kind.GroupVersion().String()): set}
	for _, gv := range s.r.OtherVersions {
		sets[fieldpath.APIVersion(gv.String())] = set
	}
	return sets
}

// gracefulStrategy is used for resources that take their time to die.
type gracefulStrategy[T Object] struct{ strategy[T] }

func (s gracefulStrategy[T]) CheckGracefulDelete(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	return s.r.CheckGracefulDelete(ctx, obj.(T), options)
}

// statusStrategy is the one of the /status subresource.
type statusStrategy[T Object] struct{ strategy[T] }

func (s statusStrategy[T]) AllowCreateOnUpdate(context.Context) bool { return false }

func (s statusStrategy[T]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	n, o := obj.(T), old.(T)
	KeepKind(n, o)
	keepAllButStatus(n, o)
	if s.r.Status.KeepMetadata {
		metav1.ResetObjectMetaForStatus(n, o)
	}
	if s.r.Status.PrepareForUpdate != nil {
		s.r.Status.PrepareForUpdate(ctx, n, o)
	}
}

func (s statusStrategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	n, o := obj.(T), old.(T)
	errs := max(s.r.Metadata, s.r.Status.Metadata).update(n, o)
	if s.r.Status.Validate != nil {
		errs = append(errs, s.r.Status.Validate(ctx, n, o)...)
	}
	if s.r.Status.Authorize != nil {
		errs = append(errs, s.r.Status.Authorize(ctx, s.config, n, o, errs)...)
	}
	return errs
}

func (s statusStrategy[T]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	if s.r.Status.Warnings == nil {
		return nil
	}
	return s.r.Status.Warnings(ctx, obj.(T), old.(T))
}

func (s statusStrategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	names := s.r.Status.ResetFields
	if names != nil {
		return s.reset(names...)
	}
	for f := range topFields(s.r.New()) {
		if f.json != "status" && (f.json != "metadata" || s.r.Status.KeepMetadata) {
			names = append(names, f.json)
		}
	}
	return s.reset(names...)
}

// copyStatus gives dst the status of src.
func copyStatus[T Object](dst, src T) {
	reflect.ValueOf(dst).Elem().FieldByName("Status").Set(reflect.ValueOf(src).Elem().FieldByName("Status"))
}

// keepAllButStatus gives dst every field of src except metadata and status, so that a status write cannot change intent.
func keepAllButStatus[T Object](dst, src T) {
	d, s := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	for f := range topFields(src) {
		if f.json != "status" && f.json != "metadata" {
			d.Field(f.index).Set(s.Field(f.index))
		}
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package scale serves the scale subresource: the number of replicas of a workload in one shape for all kinds, as
// kubectl scale and autoscalers use it. Touch it when that shape changes; which fields it stands for is said by each
// resource.
package scale

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"minik8s.io/minik8s/pkg/registry"
)

var kind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// Fields tells what of an object a Scale stands for.
type Fields[T registry.Object] struct {
	// Desired points to the wanted number of replicas, to read and to write.
	Desired func(obj T) *int32
	// Current is the reported number.
	Current func(obj T) int32
	// Selector selects the pods, in the form of a query parameter.
	Selector func(obj T) (string, error)
}

// REST is the subresource.
type REST[T registry.Object] struct {
	store   *registry.Store[T]
	fields  Fields[T]
	version schema.GroupVersion
}

var (
	_ rest.Patcher                  = (*REST[registry.Object])(nil)
	_ rest.GroupVersionKindProvider = (*REST[registry.Object])(nil)
	_ rest.TableConvertor           = (*REST[registry.Object])(nil)
)

// New returns the scale subresource of a store whose objects are of the given version.
func New[T registry.Object](store *registry.Store[T], version schema.GroupVersion, f Fields[T]) *REST[T] {
	return &REST[T]{store: store, fields: f, version: version}
}

// New implements rest.Storage.
func (r *REST[T]) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *REST[T]) Destroy() {}

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (r *REST[T]) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind { return kind }

// Get implements rest.Getter.
func (r *REST[T]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.store.Object(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return r.scale(obj)
}

// Update implements rest.Updater.
func (r *REST[T]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	// Admission judges the Scale, not the object behind it.
	onCreate := func(ctx context.Context, obj runtime.Object) error {
		s, err := r.scale(obj.(T))
		if err != nil {
			return err
		}
		return create(ctx, s)
	}
	onUpdate := func(ctx context.Context, obj, old runtime.Object) error {
		s, err := r.scale(obj.(T))
		if err != nil {
			return err
		}
		was, err := r.scale(old.(T))
		if err != nil {
			return err
		}
		return update(ctx, s, was)
	}
	obj, _, err := r.store.Update(ctx, name, &updated[T]{REST: r, name: name, info: info}, onCreate, onUpdate, false, options)
	if err != nil {
		return nil, false, err
	}
	s, err := r.scale(obj.(T))
	return s, false, err
}

func (r *REST[T]) scale(obj T) (*autoscalingv1.Scale, error) {
	selector, err := r.fields.Selector(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: r.fields.Current(obj), Selector: selector},
	}
	if n := r.fields.Desired(obj); n != nil {
		s.Spec.Replicas = *n
	}
	return s, nil
}

// updated turns a changed Scale into a changed object.
type updated[T registry.Object] struct {
	*REST[T]
	name string
	info rest.UpdatedObjectInfo
}

var _ rest.UpdatedObjectInfo = (*updated[registry.Object])(nil)

// Preconditions implements rest.UpdatedObjectInfo.
func (u *updated[T]) Preconditions() *metav1.Preconditions { return u.info.Preconditions() }

// UpdatedObject implements rest.UpdatedObjectInfo.
func (u *updated[T]) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj, ok := old.DeepCopyObject().(T)
	if !ok || obj.GetResourceVersion() == "" {
		missing := u.store.DefaultQualifiedResource
		missing.Resource += "/scale"
		return nil, apierrors.NewNotFound(missing, u.name)
	}
	// Who owns the replicas through the main resource owns them through the Scale, and the other way round.
	replicas := fieldpath.MakePathOrDie("spec", "replicas")
	owners := managedfields.NewScaleHandler(obj.GetManagedFields(), u.version, managedfields.ResourcePathMappings{u.version.String(): replicas})
	before, err := u.scale(obj)
	if err != nil {
		return nil, err
	}
	if before.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	changed, err := u.info.UpdatedObject(ctx, before)
	if err != nil {
		return nil, err
	}
	s, ok := changed.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", changed))
	}
	if errs := validate(s); len(errs) > 0 {
		return nil, apierrors.NewInvalid(kind.GroupKind(), s.Name, errs)
	}
	if s.ResourceVersion != "" {
		obj.SetResourceVersion(s.ResourceVersion) // the store compares
	}
	if s.UID != "" {
		obj.SetUID(s.UID)
	}
	*u.fields.Desired(obj) = s.Spec.Replicas
	managed, err := owners.ToParent(s.ManagedFields)
	if err != nil {
		return nil, err
	}
	obj.SetManagedFields(managed)
	return obj, nil
}

// validate checks what is taken over; other metadata is not read.
func validate(s *autoscalingv1.Scale) field.ErrorList {
	errs := metav1validation.ValidateManagedFields(s.ManagedFields, field.NewPath("metadata", "managedFields"))
	return append(errs, apivalidation.ValidateNonnegativeField(int64(s.Spec.Replicas), field.NewPath("spec", "replicas"))...)
}

// ConvertToTable implements rest.TableConvertor.
func (r *REST[T]) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	s, ok := object.(*autoscalingv1.Scale)
	if !ok {
		return nil, fmt.Errorf("cannot print a %T", object)
	}
	return &metav1.Table{
		ListMeta: metav1.ListMeta{ResourceVersion: s.ResourceVersion},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			registry.Column("Name", "string", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
			registry.Column("Desired", "integer", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]),
			registry.Column("Available", "integer", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]),
			registry.AgeColumn,
		},
		Rows: []metav1.TableRow{{
			Cells:  []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), registry.Age(s.CreationTimestamp)},
			Object: runtime.RawExtension{Object: s},
		}},
	}, nil
}

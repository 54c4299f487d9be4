// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"minik8s.io/minik8s/pkg/registry"
)

// plain is what REST takes from the generic store: everything but deletion. Deleting a collection of namespaces is
// not served, as upstream.
type plain interface {
	rest.StorageWithReadiness
	rest.Scoper
	rest.ShortNamesProvider
	rest.CategoriesProvider
	rest.SingularNameProvider
	rest.StorageVersionProvider
	rest.ResetFieldsStrategy
	rest.Getter
	rest.Lister
	rest.CreaterUpdater
	rest.Watcher
}

// REST is the storage of namespaces.
type REST struct {
	plain
	store *registry.Store[*corev1.Namespace]
}

var (
	_ rest.Patcher                      = (*REST)(nil)
	_ rest.GracefulDeleter              = (*REST)(nil)
	_ rest.CorruptObjectDeleterProvider = (*REST)(nil)
)

// GetCorruptObjDeleter implements rest.CorruptObjectDeleterProvider.
func (r *REST) GetCorruptObjDeleter() rest.GracefulDeleter { return r.store.GetCorruptObjDeleter() }

// Delete implements rest.GracefulDeleter: the first call marks the namespace Terminating; later ones do nothing until
// spec.finalizers is empty, then remove it.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	ns, err := r.store.Object(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	if options.Preconditions.UID == nil {
		options.Preconditions.UID = &ns.UID
	} else if *options.Preconditions.UID != ns.UID {
		return nil, false, apierrors.NewConflict(stored.GroupResource(), name,
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *options.Preconditions.UID, ns.UID)) //nolint:staticcheck // upstream's words
	}
	if rv := options.Preconditions.ResourceVersion; rv != nil && *rv != ns.ResourceVersion {
		return nil, false, apierrors.NewConflict(stored.GroupResource(), name,
			fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *rv, ns.ResourceVersion)) //nolint:staticcheck // upstream's words
	}
	if ns.DeletionTimestamp.IsZero() {
		return r.terminate(ctx, name, validate, options)
	}
	if len(ns.Spec.Finalizers) != 0 {
		return ns, false, nil
	}
	return r.store.Delete(ctx, name, validate, options)
}

// terminate starts the deletion.
func (r *REST) terminate(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	key, err := r.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	preconditions := storage.Preconditions{UID: options.Preconditions.UID, ResourceVersion: options.Preconditions.ResourceVersion}
	out := &corev1.Namespace{}
	err = r.store.Storage.GuaranteedUpdate(ctx, key, out, false, &preconditions,
		storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
			ns, ok := existing.(*corev1.Namespace)
			if !ok {
				return nil, fmt.Errorf("expected a Namespace, got %T", existing)
			}
			if validate != nil {
				if err := validate(ctx, ns); err != nil {
					return nil, err
				}
			}
			markTerminating(ns, options, metav1.Now())
			return ns, nil
		}), dryrun.IsDryRun(options.DryRun), nil)
	if err != nil {
		err = storeerr.InterpretGetError(err, stored.GroupResource(), name)
		if _, ok := err.(apierrors.APIStatus); !ok {
			err = storeerr.InterpretUpdateError(err, stored.GroupResource(), name)
		}
		return nil, false, err
	}
	return out, false, nil
}

// markTerminating records in the namespace that it is to die and whether its dependents shall.
func markTerminating(ns *corev1.Namespace, options *metav1.DeleteOptions, now metav1.Time) {
	if ns.DeletionTimestamp.IsZero() {
		ns.DeletionTimestamp = &now
	}
	ns.Status.Phase = corev1.NamespaceTerminating
	keep := func(finalizer string, wanted bool) {
		have := slices.Contains(ns.Finalizers, finalizer)
		switch {
		case wanted && !have:
			ns.Finalizers = append(ns.Finalizers, finalizer)
		case !wanted && have:
			ns.Finalizers = slices.DeleteFunc(ns.Finalizers, func(f string) bool { return f == finalizer })
		}
	}
	// The deprecated field precedes; who says nothing changes nothing.
	if orphan := options.OrphanDependents; orphan != nil {
		keep(metav1.FinalizerOrphanDependents, *orphan)
		keep(metav1.FinalizerDeleteDependents, !*orphan)
	} else if policy := options.PropagationPolicy; policy != nil {
		keep(metav1.FinalizerOrphanDependents, *policy == metav1.DeletePropagationOrphan)
		keep(metav1.FinalizerDeleteDependents, *policy == metav1.DeletePropagationForeground)
	}
}

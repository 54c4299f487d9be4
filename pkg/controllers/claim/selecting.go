// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Orphans lets through the objects that no controller owns.
func Orphans() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil })
}

// Selecting maps an orphan to the owners in its namespace which may adopt it. newList returns an empty list of owners of
// type T, selectorOf the selector of one. A selector that is broken or matches everything selects nothing here.
func Selecting[T client.Object](reader client.Reader, newList func() client.ObjectList, selectorOf func(T) (labels.Selector, error)) handler.MapFunc {
	return func(ctx context.Context, orphan client.Object) []reconcile.Request {
		if len(orphan.GetLabels()) == 0 {
			return nil
		}
		list := newList()
		if err := reader.List(ctx, list, client.InNamespace(orphan.GetNamespace()), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing possible owners")
			return nil
		}
		var requests []reconcile.Request
		err := meta.EachListItem(list, func(item runtime.Object) error {
			owner := item.(T)
			selector, err := selectorOf(owner)
			if err == nil && !selector.Empty() && selector.Matches(labels.Set(orphan.GetLabels())) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
			}
			return nil
		})
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Reading the list of possible owners")
		}
		return requests
	}
}

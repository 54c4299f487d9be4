// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// Orphans lets through the objects that no controller owns.
func Orphans() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil })
}

// Concerning lets through the objects whose controller is of this kind, or was before a change, and those that have none. It is
// for Waking: most pods are of other controllers, and this finds out without an allocation.
func Concerning(kind schema.GroupVersionKind) predicate.Predicate {
	concerns := func(obj client.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return ref == nil || ref.Kind == kind.Kind
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return concerns(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return concerns(e.ObjectOld) || concerns(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return concerns(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return concerns(e.Object) },
	}
}

// Waking wakes the owner of an object, if it is of this kind, and of an orphan those that adopting names.
func Waking(kind schema.GroupVersionKind, adopting handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(ctx context.Context, obj client.Object, q queue) {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil {
			for _, request := range adopting(ctx, obj) {
				q.Add(request)
			}
		} else if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == kind.Kind && (group == kind.Group || kind.Group == "" && group == ref.APIVersion) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
			if before == nil || after == nil || before.UID != after.UID {
				wake(ctx, e.ObjectOld, q)
			}
			wake(ctx, e.ObjectNew, q)
		},
	}
}

// Selecting maps an orphan to the owners in its namespace which may adopt it. newList returns an empty list of owners of
// type T, selectorOf the selector of one. A selector that is broken or matches everything selects nothing here.
func Selecting[T client.Object](reader client.Reader, newList func() client.ObjectList, selectorOf func(T) (labels.Selector, error)) handler.MapFunc {
	return func(ctx context.Context, orphan client.Object) []reconcile.Request {
		if len(orphan.GetLabels()) == 0 {
			return nil
		}
		return ownwrites.Concerned(ctx, reader, newList(), func(owner T) bool {
			selector, err := selectorOf(owner)
			return err == nil && !selector.Empty() && selector.Matches(labels.Set(orphan.GetLabels()))
		}, client.InNamespace(orphan.GetNamespace()))
	}
}

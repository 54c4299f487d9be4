// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"maps"
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

	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// Orphans lets through the objects that no controller owns, when they appear and when that or their labels change: nothing else
// makes an owner adopt them.
func Orphans() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return metav1.GetControllerOfNoCopy(e.Object) == nil },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isAdoptableAnew(e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// isAdoptableAnew tells whether an object that has changed is an orphan which others may adopt than before.
func isAdoptableAnew(before, after client.Object) bool {
	return metav1.GetControllerOfNoCopy(after) == nil &&
		(metav1.GetControllerOfNoCopy(before) != nil || !maps.Equal(before.GetLabels(), after.GetLabels()))
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

// Waking wakes the owner of an object, if it is of this kind, and before a change of owners also the former one. Of an orphan it
// wakes those that adopting names, when it appears and when it is another one's no more or its labels change: of very many orphans
// each update would else look for somebody who might adopt it.
func Waking(kind schema.GroupVersionKind, adopting handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	owner := func(obj client.Object, q queue) {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil || ref.Kind != kind.Kind {
			return
		}
		if group, _, _ := strings.Cut(ref.APIVersion, "/"); group == kind.Group || kind.Group == "" && group == ref.APIVersion {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}})
		}
	}
	adopt := func(ctx context.Context, orphan client.Object, q queue) {
		for _, request := range adopting(ctx, orphan) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if metav1.GetControllerOfNoCopy(e.Object) == nil {
				adopt(ctx, e.Object, q)
			}
			owner(e.Object, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { owner(e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
			if before != nil && (after == nil || before.UID != after.UID) {
				owner(e.ObjectOld, q)
			}
			if isAdoptableAnew(e.ObjectOld, e.ObjectNew) {
				adopt(ctx, e.ObjectNew, q)
			}
			owner(e.ObjectNew, q)
		},
	}
}

// Selecting maps an orphan to the owners in its namespace which may adopt it. newList returns an empty list of owners of
// type T, whose selectors have to be indexed, selectorOf the selector of one. A selector that is broken or matches everything
// selects nothing here.
func Selecting[T client.Object](reader client.Reader, newList func() client.ObjectList, selectorOf func(T) (labels.Selector, error)) handler.MapFunc {
	return func(ctx context.Context, orphan client.Object) []reconcile.Request {
		if len(orphan.GetLabels()) == 0 {
			return nil
		}
		var requests []reconcile.Request
		for _, where := range index.MaySelect(orphan) {
			requests = append(requests, ownwrites.EnqueueFor(ctx, reader, newList(), func(owner T) bool {
				selector, err := selectorOf(owner)
				return err == nil && !selector.Empty() && selector.Matches(labels.Set(orphan.GetLabels()))
			}, where)...)
		}
		return requests
	}
}

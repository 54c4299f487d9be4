// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Concerned returns a request for each object of a list that an event concerns, in the cache as it is: what handles events must
// not wait for anything, own writes among it. An error is logged, and then there are none.
func Concerned[T client.Object](ctx context.Context, reader client.Reader, list client.ObjectList, concerned func(T) bool, opts ...client.ListOption) []reconcile.Request {
	objects, err := Peek[T](ctx, reader, list, append(opts, client.DisableReadYourWritesConsistency)...)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing what an event may concern")
		return nil
	}
	var requests []reconcile.Request
	for _, o := range objects {
		if concerned(o) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
	}
	return requests
}

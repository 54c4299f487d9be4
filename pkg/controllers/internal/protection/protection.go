// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package protection keeps an object that was deleted for as long as something uses it, by a finalizer. Touch it when the
// protection of claims, volumes and classes changes alike.
package protection

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Keep gives obj, as it was read last, the finalizer, and takes it away once obj is deleted and not used. A conflict is
// returned as the error that it is.
func Keep(ctx context.Context, c client.Client, obj client.Object, finalizer string, used func(context.Context) (bool, error)) error {
	has := slices.Contains(obj.GetFinalizers(), finalizer)
	deleted := !obj.GetDeletionTimestamp().IsZero()
	if has != deleted {
		return nil // protected and alive, or let go
	}
	if deleted {
		if inUse, err := used(ctx); err != nil || inUse {
			return err
		}
		controllerutil.RemoveFinalizer(obj, finalizer)
	} else {
		controllerutil.AddFinalizer(obj, finalizer)
	}
	return client.IgnoreNotFound(c.Update(ctx, obj))
}

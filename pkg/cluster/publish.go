// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// maker reads and makes objects of one kind; clientsets have one for each.
type maker[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
}

// publish makes an object that every cluster has, unless there is one of its name: what users changed in it stays. It is repeated
// until it succeeds.
func publish[T metav1.Object](ctx context.Context, kind maker[T], object T) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, last = kind.Get(ctx, object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(last) {
			_, last = kind.Create(ctx, object, metav1.CreateOptions{})
		}
		return last == nil || apierrors.IsAlreadyExists(last), nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the cluster ends
	}
	if err != nil {
		return fmt.Errorf("publishing %s: %w", object.GetName(), last)
	}
	return nil
}

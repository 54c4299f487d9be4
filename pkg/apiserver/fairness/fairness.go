// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairness keeps the FlowSchemas and PriorityLevelConfigurations that every cluster has, by which requests wait for
// one another; what lets them wait is k8s.io/apiserver/pkg/util/flowcontrol. Touch it when that configuration is kept in
// another way; see https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#defaults (KEP-1040).
package fairness

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	client "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"

	"minik8s.io/minik8s/pkg/registry/flowcontrol/flowschema"
	"minik8s.io/minik8s/pkg/registry/flowcontrol/prioritylevelconfiguration"
)

const (
	manager = "api-priority-and-fairness-config-producer-v1"
	// period is how often the objects are looked at again.
	period = time.Minute
	// parallel writes: a server that starts for the first time makes some twenty objects before it is ready.
	parallel = 24
)

// Start makes the objects that are missing, and keeps them from then on until ctx ends. It returns when all have been there
// once, or without an error if ctx ends before.
func Start(ctx context.Context, api client.FlowcontrolV1Interface) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		return ensureAndTell(ctx, api), nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the server ends, which is no failure
	}
	if err != nil {
		return fmt.Errorf("making the configuration of priority and fairness: %w", err)
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) { ensureAndTell(ctx, api) }, period)
	return nil
}

func ensureAndTell(ctx context.Context, api client.FlowcontrolV1Interface) bool {
	err := Ensure(ctx, api)
	if err != nil && ctx.Err() == nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Keeping the configuration of priority and fairness")
	}
	return err == nil
}

// Ensure writes what is missing or differs, once.
func Ensure(ctx context.Context, api client.FlowcontrolV1Interface) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		list, err := api.PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		return write(ctx, api.PriorityLevelConfigurations(), levels.plan(pointers(list.Items)))
	})
	both.Go(func() error {
		list, err := api.FlowSchemas().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		return write(ctx, api.FlowSchemas(), schemas.plan(pointers(list.Items)))
	})
	return both.Wait()
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// writer is the part of a typed client that is used here.
type writer[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// write carries changes out. What somebody else has changed meanwhile is left to the next look.
func write[T object[T]](ctx context.Context, w writer[T], c changes[T]) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(parallel)
	for _, obj := range c.create {
		all.Go(func() error {
			_, err := w.Create(ctx, obj, metav1.CreateOptions{FieldManager: manager})
			return unless(apierrors.IsAlreadyExists, err)
		})
	}
	for _, obj := range c.update {
		all.Go(func() error {
			_, err := w.Update(ctx, obj, metav1.UpdateOptions{FieldManager: manager})
			return unless(apierrors.IsConflict, err)
		})
	}
	for _, name := range c.remove {
		all.Go(func() error { return unless(apierrors.IsNotFound, w.Delete(ctx, name, metav1.DeleteOptions{})) })
	}
	return all.Wait()
}

func unless(harmless func(error) bool, err error) error {
	if harmless(err) {
		return nil
	}
	return err
}

var levels = configuration[*flowcontrolv1.PriorityLevelConfiguration]{
	mandatory: bootstrap.MandatoryPriorityLevelConfigurations,
	suggested: bootstrap.SuggestedPriorityLevelConfigurations,
	same: func(want, have *flowcontrolv1.PriorityLevelConfiguration) bool {
		want = want.DeepCopy()
		prioritylevelconfiguration.Resource.Default(want)
		if e := have.Spec.Exempt; e != nil && want.Spec.Exempt != nil {
			want.Spec.Exempt = e // how much it lends is up to the administrator
		}
		return apiequality.Semantic.DeepEqual(want.Spec, have.Spec)
	},
	adopt: func(into, from *flowcontrolv1.PriorityLevelConfiguration) { into.Spec = *from.Spec.DeepCopy() },
}

var schemas = configuration[*flowcontrolv1.FlowSchema]{
	mandatory: bootstrap.MandatoryFlowSchemas,
	suggested: bootstrap.SuggestedFlowSchemas,
	same: func(want, have *flowcontrolv1.FlowSchema) bool {
		want = want.DeepCopy()
		flowschema.Resource.Default(want)
		return apiequality.Semantic.DeepEqual(want.Spec, have.Spec)
	},
	adopt: func(into, from *flowcontrolv1.FlowSchema) { into.Spec = *from.Spec.DeepCopy() },
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumeattributesclassprotection keeps a VolumeAttributesClass that was deleted while volumes or claims name it
// (KEP-3751). Touch it when classes go too early or stay.
package volumeattributesclassprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/protection"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Finalizer is what a protected class has.
const Finalizer = "kubernetes.io/vac-protection"

// Reconciler protects one class.
type Reconciler struct {
	Client client.Client
	// Live is asked before a class goes: the cache may miss a claim that was made just now.
	Live client.Reader
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	named := func(_ context.Context, obj client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, name := range classes(obj) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
		return requests
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&storagev1.VolumeAttributesClass{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(named)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(named)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Live: env.Live}))
}

// Reconcile looks at the class in req.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var class storagev1.VolumeAttributesClass
	if err := r.Client.Get(ctx, req.NamespacedName, &class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, protection.Keep(ctx, r.Client, &class, Finalizer, func(ctx context.Context) (bool, error) {
		return r.used(ctx, class.Name)
	})
}

func (r *Reconciler) used(ctx context.Context, class string) (bool, error) {
	var volumes corev1.PersistentVolumeList
	if err := r.Live.List(ctx, &volumes); err != nil {
		return false, fmt.Errorf("listing volumes: %w", err)
	}
	for i := range volumes.Items {
		if slices.Contains(classes(&volumes.Items[i]), class) {
			return true, nil
		}
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.Live.List(ctx, &claims); err != nil {
		return false, fmt.Errorf("listing claims: %w", err)
	}
	return slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool { return slices.Contains(classes(&c), class) }), nil
}

// classes returns the names of the classes that a claim or volume has, had, or shall have.
func classes(obj client.Object) []string {
	var names []string
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		names = []string{ptr.Deref(o.Spec.VolumeAttributesClassName, "")}
	case *corev1.PersistentVolumeClaim:
		names = []string{ptr.Deref(o.Spec.VolumeAttributesClassName, ""), ptr.Deref(o.Status.CurrentVolumeAttributesClassName, "")}
		if m := o.Status.ModifyVolumeStatus; m != nil {
			names = append(names, m.TargetVolumeAttributesClassName)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ephemeralvolume creates the claims of volumes that live as long as their pod. Touch it when such a claim is missing
// or has the wrong owner; that it goes with the pod is the garbage collector's work.
package ephemeralvolume

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/ephemeral"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/deletion"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// Reconciler works on one pod at a time. It has to be behind a setup.Env.Barrier.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
}

// Setup adds the controller to the manager. A pod's volumes never change, so only new pods and lost claims matter.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, Events: env.Events}
	created := predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return wantsClaims(e.Object.(*corev1.Pod)) },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Pod{}, builder.WithPredicates(created)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(deletion.Only())).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// wantsClaims reports whether the pod has ephemeral volumes and will stay.
func wantsClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return pod.DeletionTimestamp == nil
		}
	}
	return false
}

// usersOf returns the pods that have an ephemeral volume of which the claim is called like the one that is gone.
func (r *Reconciler) usersOf(ctx context.Context, gone client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, r.Client, &corev1.PodList{}, func(p *corev1.Pod) bool { return uses(p, gone.GetName()) },
		client.InNamespace(gone.GetNamespace()), client.MatchingFields{pods.ClaimField: gone.GetName()})
}

func uses(pod *corev1.Pod, claimName string) bool {
	if !wantsClaims(pod) {
		return false
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil && ephemeral.VolumeClaimName(pod, v) == claimName {
			return true
		}
	}
	return false
}

// Reconcile makes sure that each ephemeral volume of the pod has a claim of its own.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !wantsClaims(pod) {
		return reconcile.Result{}, nil
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral == nil {
			continue
		}
		if err := r.provide(ctx, pod, volume); err != nil {
			r.Events.Eventf(pod, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", volume.Name, err)
			return reconcile.Result{}, fmt.Errorf("pod %s, ephemeral volume %s: %w", req, volume.Name, err)
		}
	}
	return reconcile.Result{}, nil
}

// provide creates the claim of a volume. A claim of that name which belongs to somebody else is an error: using it would show
// the pod another's data.
func (r *Reconciler) provide(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	claim := Claim(pod, volume)
	existing := &corev1.PersistentVolumeClaim{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(claim), existing)
	if err == nil {
		return ephemeral.VolumeIsForPod(pod, existing)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	if err := r.Client.Create(ctx, claim); err != nil {
		return fmt.Errorf("create PVC %s: %w", claim.Name, err)
	}
	return nil
}

// Claim returns the claim of an ephemeral volume, which the pod owns.
func Claim(pod *corev1.Pod, volume *corev1.Volume) *corev1.PersistentVolumeClaim {
	template := volume.Ephemeral.VolumeClaimTemplate
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pod.Namespace,
			Name:            ephemeral.VolumeClaimName(pod, volume),
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, podKind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

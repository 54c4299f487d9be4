// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumeexpand tells who will make the volume of a claim larger that asks for more: always somebody else, an
// external resizer, as upstream has no expandable plugins left either. Touch it when claims that grow are announced
// otherwise.
package volumeexpand

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/apis/storage/migration"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// resizer is the annotation that tells a CSI driver that it is meant.
	resizer = "volume.kubernetes.io/storage-resizer"
	// preResizeCapacity is the annotation of a volume that was made larger while its file system was not.
	preResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"

	reason = "ExternalExpanding"
)

// Reconciler announces the growth of one claim.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return bound(e.Object) },
			DeleteFunc: func(event.DeleteEvent) bool { return false },
			UpdateFunc: func(e event.UpdateEvent) bool {
				return bound(e.ObjectNew) && grown(e.ObjectOld.(*corev1.PersistentVolumeClaim), e.ObjectNew.(*corev1.PersistentVolumeClaim))
			},
		})).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Events: env.Events}))
}

func bound(obj client.Object) bool {
	return obj.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound
}

// grown tells whether a claim asks for more than before, or has got more.
func grown(before, after *corev1.PersistentVolumeClaim) bool {
	asked, has := before.Spec.Resources.Requests.Storage(), before.Status.Capacity.Storage()
	return after.Spec.Resources.Requests.Storage().Cmp(*asked) > 0 || after.Status.Capacity.Storage().Cmp(*has) > 0
}

// Reconcile looks at the claim in req.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !bound(claim) {
		return reconcile.Result{}, nil
	}
	volume := &corev1.PersistentVolume{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, volume); err != nil {
		return reconcile.Result{}, fmt.Errorf("getting volume %q: %w", claim.Spec.VolumeName, err)
	}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.Namespace != claim.Namespace || ref.UID != claim.UID {
		return reconcile.Result{}, fmt.Errorf("volume %q is not bound to the claim", volume.Name)
	}
	if !wantsMore(claim, volume) {
		return reconcile.Result{}, nil
	}
	plugin := migration.Plugin(&volume.Spec.PersistentVolumeSource)
	if plugin == "" {
		r.Events.Event(claim, corev1.EventTypeNormal, reason, "waiting for an external controller to expand this PVC")
		return reconcile.Result{}, nil
	}
	r.Events.Eventf(claim, corev1.EventTypeNormal, reason, "CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin)
	return reconcile.Result{}, r.name(ctx, claim, migration.Driver(plugin))
}

// wantsMore tells whether a claim has less than it asks for, or a file system that has yet to grow.
func wantsMore(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return claim.Spec.Resources.Requests.Storage().Cmp(*claim.Status.Capacity.Storage()) > 0 ||
		metav1.HasAnnotation(volume.ObjectMeta, preResizeCapacity)
}

// name notes the driver that is to make the volume larger. The rights are for the status only, which takes annotations along.
func (r *Reconciler) name(ctx context.Context, claim *corev1.PersistentVolumeClaim, driver string) error {
	if claim.Annotations[resizer] == driver {
		return nil
	}
	before := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, resizer, driver)
	if err := r.Client.Status().Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("naming the resizer: %w", err)
	}
	return nil
}

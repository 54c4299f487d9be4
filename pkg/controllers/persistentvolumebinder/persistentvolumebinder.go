// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumebinder binds claims to volumes, asks external provisioners for volumes that are missing, and
// releases the volumes of claims that are gone. Touch it when a claim gets the wrong volume, or waits for one.
//
// Two reconcilers share the work, as upstream's two workers do: that of a claim makes bindings, that of a volume sees
// that they ended. A binding is four writes (volume, its status, claim, its status), each of which may be the last one
// before a crash; the order is such that the next pass finds what is left to do. While the claim is not in the volume
// another one may take it: of two that race the API server lets one win, for both wrote from the same version.
//
// See https://kubernetes.io/docs/concepts/storage/persistent-volumes.
package persistentvolumebinder

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	volumehelper "k8s.io/component-helpers/storage/volume"
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

const (
	// byClaim finds volumes by the claim that they refer to, as namespace/name.
	byClaim = "spec.claimRef"
	// byWaiting finds the claims that are not bound by their class and by the node that was chosen for them, see waitingKeys.
	byWaiting = "waiting"
	// settling is how long a new pod may take to be scheduled before its claims say that they wait for that, as upstream's next look at
	// all claims would.
	settling = 15 * time.Second
)

// Setup adds both reconcilers to the manager.
func Setup(env setup.Env) error {
	index := env.Manager.GetFieldIndexer()
	err := index.IndexField(context.Background(), &corev1.PersistentVolume{}, byClaim, func(obj client.Object) []string {
		if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil {
			return []string{ref.Namespace + "/" + ref.Name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing volumes: %w", err)
	}
	err = index.IndexField(context.Background(), &corev1.PersistentVolumeClaim{}, byWaiting, waitingKeys)
	if err != nil {
		return fmt.Errorf("indexing claims: %w", err)
	}
	w := waker{env.Client}
	err = ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.PersistentVolumeClaim{}).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(w.claimsOfVolume)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(w.claimsOfClass)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(w.claimsOfNode), builder.WithPredicates(deletion.Only())).
		Watches(&corev1.Pod{}, newUsers(), builder.WithPredicates(predicate.NewPredicateFuncs(unscheduledUser))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&ClaimReconciler{Client: env.Client, Live: env.Live, Events: env.Events}))
	if err != nil {
		return fmt.Errorf("adding the controller of claims: %w", err)
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name+"-volume").
		For(&corev1.PersistentVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(w.volumesOfClaim)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&VolumeReconciler{Client: env.Client, Live: env.Live, Events: env.Events}))
}

// waker says which objects an event of another one concerns.
type waker struct {
	client client.Client
}

// waitingKeys are the values of byWaiting for a claim.
func waitingKeys(obj client.Object) []string {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if metav1.HasAnnotation(claim.ObjectMeta, volumehelper.AnnBindCompleted) {
		return nil
	}
	keys := []string{ofClass(volumehelper.GetPersistentVolumeClaimClass(claim))}
	if node := claim.Annotations[volumehelper.AnnSelectedNode]; node != "" {
		keys = append(keys, onNode(node))
	}
	return keys
}

// ofClass is the value of byWaiting for claims of a class, "" for none.
func ofClass(class string) string { return "class/" + class }

// onNode is the value of byWaiting for claims whose volume is to be made on a node.
func onNode(node string) string { return "node/" + node }

// claimsOfVolume is the claim that a volume is for, or those that may want it.
func (w waker) claimsOfVolume(ctx context.Context, obj client.Object) []reconcile.Request {
	volume := obj.(*corev1.PersistentVolume)
	if ref := volume.Spec.ClaimRef; ref != nil {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}}
	}
	if volume.Status.Phase != corev1.VolumeAvailable || volume.DeletionTimestamp != nil {
		return nil
	}
	return w.waiting(ctx, ofClass(volumehelper.GetPersistentVolumeClass(volume)), func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Spec.VolumeName == volume.Name || claim.Spec.VolumeName == "" && mismatch(volume, claim) == nil
	})
}

// claimsOfClass are those that wait for a volume of the class, or for a default class.
func (w waker) claimsOfClass(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(w.waiting(ctx, ofClass(obj.GetName()), all), w.waiting(ctx, ofClass(""), all)...)
}

// claimsOfNode are those whose volume was to be made on a node that is gone.
func (w waker) claimsOfNode(ctx context.Context, obj client.Object) []reconcile.Request {
	return w.waiting(ctx, onNode(obj.GetName()), all)
}

func all(*corev1.PersistentVolumeClaim) bool { return true }

// newUsers has the claims of a new pod looked at a while later.
func newUsers() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			for _, name := range pods.Claims(e.Object.(*corev1.Pod)) {
				queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: name}}, settling)
			}
		},
	}
}

// unscheduledUser tells whether an object is a pod with claims that has no node.
func unscheduledUser(obj client.Object) bool {
	pod := obj.(*corev1.Pod)
	return pod.Spec.NodeName == "" && len(pods.Claims(pod)) > 0
}

// waiting are the claims that are not bound and have the key, as far as concerned says so.
func (w waker) waiting(ctx context.Context, key string, concerned func(*corev1.PersistentVolumeClaim) bool) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, w.client, &corev1.PersistentVolumeClaimList{}, concerned, client.MatchingFields{byWaiting: key})
}

// volumesOfClaim are the volume that a claim names and those that name it.
func (w waker) volumesOfClaim(ctx context.Context, obj client.Object) []reconcile.Request {
	claim := obj.(*corev1.PersistentVolumeClaim)
	var list corev1.PersistentVolumeList
	ofClaim := client.MatchingFields{byClaim: claim.Namespace + "/" + claim.Name}
	err := w.client.List(ctx, &list, ofClaim, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing volumes")
	}
	var names []string
	if claim.Spec.VolumeName != "" {
		names = append(names, claim.Spec.VolumeName)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	var requests []reconcile.Request
	for _, name := range slices.Compact(names) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

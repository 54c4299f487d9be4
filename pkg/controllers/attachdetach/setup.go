// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attachdetach

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	options := env.Options()
	options.MaxConcurrentReconciles = 1
	w := waker{env.Client}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(nodeOfPod),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(w.nodesOfClaim),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: claimBound})).
		Watches(&storagev1.CSIDriver{}, handler.EnqueueRequestsFromMapFunc(w.nodes),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: attachesOtherwise})).
		Watches(&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(w.nodesOfAttachment)).
		WithOptions(options).
		// There is one pass at a time, and it waits until the cache has what the one before has written, whatever node that was for. Else
		// two nodes would get the volume that both want: no write for the one is in the way of the other.
		Complete(env.Barrier.ForAll(&Reconciler{Client: env.Client, Events: env.Events, Clock: env.Clock}))
}

// nodeChanged drops heartbeats.
func nodeChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return managed(before) != managed(after) || ready(before) != ready(after) ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!equality.Semantic.DeepEqual(before.Status.VolumesInUse, after.Status.VolumesInUse) ||
		!equality.Semantic.DeepEqual(before.Status.VolumesAttached, after.Status.VolumesAttached)
}

func podChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	return before.Spec.NodeName != after.Spec.NodeName || pods.IsStopped(before) != pods.IsStopped(after)
}

func claimBound(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.PersistentVolumeClaim), e.ObjectNew.(*corev1.PersistentVolumeClaim)
	return before.Status.Phase != after.Status.Phase
}

func attachesOtherwise(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*storagev1.CSIDriver), e.ObjectNew.(*storagev1.CSIDriver)
	return ptr.Deref(before.Spec.AttachRequired, true) != ptr.Deref(after.Spec.AttachRequired, true)
}

func nodeOfPod(_ context.Context, obj client.Object) []reconcile.Request {
	pod := obj.(*corev1.Pod)
	if pod.Spec.NodeName == "" || len(pods.Claims(pod)) == 0 {
		return nil
	}
	return []reconcile.Request{request(pod.Spec.NodeName)}
}

func request(node string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: node}}
}

// waker looks up in the cache what an event concerns.
type waker struct {
	client client.Client
}

// nodes are all of them: which has pods with volumes of a driver is not known before it has been looked at.
func (w waker) nodes(ctx context.Context, _ client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, w.client, &corev1.NodeList{}, func(*corev1.Node) bool { return true })
}

func (w waker) nodesOfClaim(ctx context.Context, obj client.Object) []reconcile.Request {
	users, err := pods.WithClaim(ctx, w.client, obj.GetNamespace(), obj.GetName())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing pods")
		return nil
	}
	var requests []reconcile.Request
	for _, user := range users {
		if node := user.Spec.NodeName; node != "" {
			requests = append(requests, request(node))
		}
	}
	return requests
}

// nodesOfAttachment are its own, and those that may have waited for it to go.
func (w waker) nodesOfAttachment(ctx context.Context, obj client.Object) []reconcile.Request {
	a := obj.(*storagev1.VolumeAttachment)
	requests := []reconcile.Request{request(a.Spec.NodeName)}
	if a.Spec.Source.PersistentVolumeName == nil {
		return requests
	}
	volume := &corev1.PersistentVolume{}
	err := w.client.Get(ctx, types.NamespacedName{Name: *a.Spec.Source.PersistentVolumeName}, volume)
	if err != nil || volume.Spec.ClaimRef == nil {
		return requests // nobody waits for a volume that is gone
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name
	return append(requests, w.nodesOfClaim(ctx, claim)...)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attachdetach

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// byNode finds the pods of a node that have claims, byClaim those that use a claim, as namespace/name.
const (
	byNode  = "attachdetach.node"
	byClaim = "attachdetach.claim"
)

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	indexer := env.Manager.GetFieldIndexer()
	err := indexer.IndexField(context.Background(), &corev1.Pod{}, byNode, func(obj client.Object) []string {
		pod := obj.(*corev1.Pod)
		if pod.Spec.NodeName == "" || len(claims(pod)) == 0 {
			return nil
		}
		return []string{pod.Spec.NodeName}
	})
	if err != nil {
		return fmt.Errorf("indexing pods by node: %w", err)
	}
	err = indexer.IndexField(context.Background(), &corev1.Pod{}, byClaim, func(obj client.Object) []string { return claims(obj.(*corev1.Pod)) })
	if err != nil {
		return fmt.Errorf("indexing pods by claim: %w", err)
	}
	options := env.Options()
	// Two nodes that want the same volume must not be looked at at the same time: no write of the one is in the way of
	// the other.
	options.MaxConcurrentReconciles = 1
	w := waker{env.Client}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(nodeOfPod),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(w.nodesOfClaim),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: claimBound})).
		Watches(&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(w.nodesOfAttachment)).
		WithOptions(options).
		Complete(&Reconciler{Client: env.Client, Events: env.Events, Clock: env.Clock, PodsOn: w.podsOn})
}

// claims are those that a pod uses, as namespace/name.
func claims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if name := claimOf(pod, &pod.Spec.Volumes[i]); name != "" {
			names = append(names, pod.Namespace+"/"+name)
		}
	}
	return names
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
	return before.Spec.NodeName != after.Spec.NodeName || ended(before) != ended(after)
}

func claimBound(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.PersistentVolumeClaim), e.ObjectNew.(*corev1.PersistentVolumeClaim)
	return before.Status.Phase != after.Status.Phase
}

func nodeOfPod(_ context.Context, obj client.Object) []reconcile.Request {
	pod := obj.(*corev1.Pod)
	if pod.Spec.NodeName == "" || len(claims(pod)) == 0 {
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

func (w waker) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := w.client.List(ctx, &pods, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy)
	return pods.Items, err
}

func (w waker) nodesOfClaim(ctx context.Context, obj client.Object) []reconcile.Request {
	var pods corev1.PodList
	users := client.MatchingFields{byClaim: obj.GetNamespace() + "/" + obj.GetName()}
	err := w.client.List(ctx, &pods, users, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing pods")
		return nil
	}
	var requests []reconcile.Request
	for i := range pods.Items {
		if node := pods.Items[i].Spec.NodeName; node != "" {
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
	err := w.client.Get(ctx, types.NamespacedName{Name: *a.Spec.Source.PersistentVolumeName}, volume, client.DisableReadYourWritesConsistency)
	if err != nil || volume.Spec.ClaimRef == nil {
		return requests // nobody waits for a volume that is gone
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name
	return append(requests, w.nodesOfClaim(ctx, claim)...)
}

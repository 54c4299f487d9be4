// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicetainteviction

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// PodReconciler works on one pod at a time.
type PodReconciler struct {
	Client client.Client
	Events record.EventRecorder
	Clock  clock.PassiveClock

	cluster *cluster
	evicted *evicted

	mu sync.Mutex
	// waiting is guarded by mu: the pods that are to be evicted later, by name.
	waiting map[types.NamespacedName]types.UID
}

// Reconcile evicts the pod in req when the time of one of its devices is over.
func (r *PodReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod); err != nil {
		r.stopWaiting(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.DeletionTimestamp != nil {
		r.stopWaiting(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	taints, err := r.cluster.taints(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	eviction, err := taints.ofPod(pod, r.cluster.claim(ctx, pod.Namespace))
	if err != nil {
		return reconcile.Result{}, err
	}
	if eviction == nil {
		if r.stopWaiting(req.NamespacedName) == pod.UID {
			r.Events.Event(pods.Reference(pod), corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Cancelling deletion")
		}
		return reconcile.Result{}, nil
	}
	if left := eviction.At.Sub(r.Clock.Now()); left > 0 {
		r.wait(req.NamespacedName, pod.UID)
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := r.evict(ctx, pod); err != nil {
		return reconcile.Result{}, err
	}
	r.stopWaiting(req.NamespacedName)
	r.evicted.add(eviction)
	return reconcile.Result{}, nil
}

func (r *PodReconciler) wait(key types.NamespacedName, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[types.NamespacedName]types.UID{}
	}
	r.waiting[key] = uid
}

// stopWaiting returns the pod that waited.
func (r *PodReconciler) stopWaiting(key types.NamespacedName) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := r.waiting[key]
	delete(r.waiting, key)
	return uid
}

// evict says in the pod's status why it goes, and deletes it.
func (r *PodReconciler) evict(ctx context.Context, pod *corev1.Pod) error {
	r.Events.Event(pods.Reference(pod), corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Marking for deletion")
	return pods.Evict(ctx, r.Client, pod, corev1.PodCondition{
		LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		Reason:             "DeletionByDeviceTaintManager",
		Message:            "Device Taint manager: deleting due to NoExecute taint",
	})
}

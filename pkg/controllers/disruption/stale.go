// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// staleTimeout is how long a pod may be marked as the target of a disruption without being deleted.
const staleTimeout = 2 * time.Minute

// StaleReconciler takes the condition DisruptionTarget from pods which were marked for a disruption that then did not
// happen, for example because whoever wanted it died (KEP-3329).
type StaleReconciler struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Reconcile checks one pod.
func (r *StaleReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Clock.Now()
	wait, ok := staleIn(pod, now)
	if !ok {
		return reconcile.Result{}, nil
	}
	if wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	*pods.Condition(pod, corev1.DisruptionTarget) = corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		ObservedGeneration: pod.Generation,
		Status:             corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(now),
	}
	return reconcile.Result{}, client.IgnoreNotFound(r.Client.Status().Update(ctx, pod))
}

// isTarget reports whether the pod is marked for a disruption which has not come yet. What a kubelet terminates it marks when it
// begins, and deletes nothing: the pod may take as long as it likes to end.
func isTarget(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pods.IsTerminal(pod) {
		return false
	}
	c := pods.Condition(pod, corev1.DisruptionTarget)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason != corev1.PodReasonTerminationByKubelet
}

// staleIn returns how long it takes until the mark of the pod is stale; ok is false for a pod without one.
func staleIn(pod *corev1.Pod, now time.Time) (wait time.Duration, ok bool) {
	if !isTarget(pod) {
		return 0, false
	}
	marked := pods.Condition(pod, corev1.DisruptionTarget).LastTransitionTime
	return max(0, staleTimeout-now.Sub(marked.Time)), true
}

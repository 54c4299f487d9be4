// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicationcontroller keeps the number of pods of a ReplicationController at its replicas. Touch it when its
// status is off or it does not notice something; how pods are created and deleted is in package replicas.
package replicationcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/internal/replicas"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var kind = corev1.SchemeGroupVersion.WithKind("ReplicationController")

// Reconciler works on one ReplicationController at a time. It has to be behind a
// setup.Env.Barrier, so that a pod just created is not created again.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock}
	selecting := adoption.Selecting(env.Client, func() client.ObjectList { return &corev1.ReplicationControllerList{} }, selectorOf)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.ReplicationController{}).
		Watches(&corev1.Pod{}, adoption.Waking(kind, selecting), builder.WithPredicates(adoption.Concerning(kind))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// selectorOf returns the selector, which is a plain set of labels. An absent one matches nothing.
func selectorOf(rc *corev1.ReplicationController) (labels.Selector, error) {
	if len(rc.Spec.Selector) == 0 {
		return labels.Nothing(), nil
	}
	return labels.ValidatedSelectorFromSet(rc.Spec.Selector)
}

// Reconcile claims the pods of the ReplicationController in req, creates or deletes pods and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rc := &corev1.ReplicationController{}
	if err := r.Client.Get(ctx, req.NamespacedName, rc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := selectorOf(rc)
	if err != nil {
		// Validation rejects such a selector; trying again cannot help.
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("parsing the selector of replication controller %q: %w", req, err))
	}
	if rc.Spec.Template == nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("replication controller %q has no pod template", req))
	}
	keeper := replicas.Keeper{Client: r.Client, Live: r.Live, Events: r.Events, Clock: r.Clock}
	result, err := keeper.Keep(ctx, replicas.Set{
		Object:          rc,
		Kind:            kind,
		Selector:        selector,
		Template:        rc.Spec.Template,
		Replicas:        wanted(rc),
		MinReadySeconds: rc.Spec.MinReadySeconds,
		Siblings:        func(ctx context.Context) ([]types.UID, error) { return r.siblings(ctx, rc) },
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	status := Status(rc, result.Counts, result.ScaleErr, r.Clock.Now())
	if !equality.Semantic.DeepEqual(rc.Status, status) {
		rc.Status = status
		if err := r.Client.Status().Update(ctx, rc); err != nil && result.ScaleErr == nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if result.ScaleErr != nil {
		return reconcile.Result{}, result.ScaleErr
	}
	return reconcile.Result{RequeueAfter: result.Recheck}, nil
}

// siblings returns the ReplicationControllers of the same controller; nothing in Kubernetes itself is one, but OpenShift's
// DeploymentConfig is.
func (r *Reconciler) siblings(ctx context.Context, rc *corev1.ReplicationController) ([]types.UID, error) {
	ref := metav1.GetControllerOfNoCopy(rc)
	if ref == nil {
		return nil, nil
	}
	list, err := ownwrites.Peek[*corev1.ReplicationController](ctx, r.Client, &corev1.ReplicationControllerList{}, index.ControlledBy(rc.Namespace, ref.UID))
	if err != nil {
		return nil, fmt.Errorf("listing related replication controllers: %w", err)
	}
	siblings := make([]types.UID, len(list))
	for i := range list {
		siblings[i] = list[i].UID
	}
	return siblings, nil
}

func wanted(rc *corev1.ReplicationController) int { return int(ptr.Deref(rc.Spec.Replicas, 1)) }

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeipam gives each node the range that its pods get their addresses from. It runs only where ranges of the
// cluster are configured for that, as upstream with --allocate-node-cidrs: nodes of minik8s bring their own. Touch it
// for how ranges are chosen.
package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one node at a time, never on two: nodes are compared with all others.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
	// ClusterCIDRs are the ranges to choose from: a node gets a part of each. What overlaps ServiceCIDRs is left out.
	ClusterCIDRs, ServiceCIDRs []netip.Prefix
}

// Setup adds the controller to the manager. Without ranges of the cluster there is nothing to give.
func Setup(env setup.Env) error {
	if len(env.ClusterCIDRs) == 0 {
		return nil
	}
	for _, c := range env.ClusterCIDRs {
		if err := check(c); err != nil {
			return err
		}
	}
	if err := setup.Register(running); err != nil {
		return err
	}
	if err := env.Manager.Add(manager.RunnableFunc(beRunning)); err != nil {
		return fmt.Errorf("adding what tells that it runs: %w", err)
	}
	options := env.Options()
	options.MaxConcurrentReconciles = 1
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Node{}).
		WithOptions(options).
		Complete(env.Barrier.ForAll(&Reconciler{
			Client: env.Client, Events: env.Events, ClusterCIDRs: env.ClusterCIDRs, ServiceCIDRs: env.ServiceCIDRs,
		}))
}

// Reconcile gives the node in req its ranges, if it has none.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, req.NamespacedName, &node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp != nil || len(node.Spec.PodCIDRs) > 0 || node.Spec.PodCIDR != "" {
		return reconcile.Result{}, nil
	}
	nodes, err := ownwrites.Peek[*corev1.Node](ctx, r.Client, &corev1.NodeList{})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listing nodes: %w", err)
	}
	ranges, err := choose(r.ClusterCIDRs, taken(nodes, r.ServiceCIDRs))
	if err != nil {
		r.tell(&node, "CIDRNotAvailable")
		return reconcile.Result{}, fmt.Errorf("choosing the pod ranges of node %q: %w", node.Name, err)
	}
	old := node.DeepCopy()
	for _, p := range ranges {
		node.Spec.PodCIDRs = append(node.Spec.PodCIDRs, p.String())
	}
	node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	// The API server does not let a range be replaced that the node got meanwhile.
	if err := r.Client.Patch(ctx, &node, client.MergeFrom(old)); client.IgnoreNotFound(err) != nil {
		r.tell(old, "CIDRAssignmentFailed")
		return reconcile.Result{}, fmt.Errorf("giving node %q its pod ranges: %w", req.Name, err)
	}
	return reconcile.Result{}, nil
}

// tell records what became of a node.
func (r *Reconciler) tell(node *corev1.Node, status string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	r.Events.Eventf(ref, corev1.EventTypeNormal, status, "Node %s status is now: %s", node.Name, status)
}

// errNone is upstream's message.
var errNone = errors.New("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")

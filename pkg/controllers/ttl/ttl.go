// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ttl tells kubelets, by an annotation of their node, how long they may keep Secrets and ConfigMaps that they
// have read: the more nodes, the longer. Touch it when these times change.
package ttl

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// steps of the size of a cluster. They overlap, so that a node that comes and goes does not change all others.
var steps = []struct{ least, most, seconds int }{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, math.MaxInt, 300},
}

// move returns the step that a cluster is on which has so many nodes and was on another step.
func move(step, nodes int) int {
	for nodes > steps[step].most {
		step++
	}
	for nodes < steps[step].least {
		step--
	}
	return step
}

// Reconciler works on one node at a time.
type Reconciler struct {
	Client client.Client

	step atomic.Int64

	mu sync.Mutex
	// known are the names of all nodes, nil before the first pass; it is guarded by mu. That a node comes or goes makes a pass for it,
	// so nobody has to count thousands of nodes for each of them.
	known map[string]bool
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Node{}, builder.WithPredicates(r.outdated())).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// outdated lets nodes come and go, and those through that are not up to date. When the time changes, each node gets it
// at the next sign of life of its kubelet, not all at once.
func (r *Reconciler) outdated() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectNew.GetAnnotations()[corev1.ObjectTTLAnnotationKey] != r.wanted()
	}}
}

func (r *Reconciler) wanted() string { return strconv.Itoa(steps[r.step.Load()].seconds) }

// Reconcile counts the node in req and annotates it, if it is there.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	err := r.Client.Get(ctx, req.NamespacedName, &node)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	exists := err == nil
	if err := r.count(ctx, req.Name, exists); err != nil || !exists {
		return reconcile.Result{}, err
	}
	if node.Annotations[corev1.ObjectTTLAnnotationKey] == r.wanted() {
		return reconcile.Result{}, nil
	}
	old := node.DeepCopy()
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[corev1.ObjectTTLAnnotationKey] = r.wanted()
	if err := r.Client.Patch(ctx, &node, client.StrategicMergeFrom(old)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("annotating node %q: %w", node.Name, err)
	}
	return reconcile.Result{}, nil
}

// count notes whether there is a node of that name, and how many there are by that.
func (r *Reconciler) count(ctx context.Context, name string, exists bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		nodes, err := ownwrites.Peek[*corev1.Node](ctx, r.Client, &corev1.NodeList{})
		if err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		r.known = map[string]bool{}
		for _, node := range nodes {
			r.known[node.Name] = true
		}
	}
	if exists {
		r.known[name] = true
	} else {
		delete(r.known, name)
	}
	r.step.Store(int64(move(int(r.step.Load()), len(r.known))))
	return nil
}

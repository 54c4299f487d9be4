// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodelifecycle notices nodes that have fallen silent and turns the conditions of nodes into taints. Touch it when
// a dead node stays Ready or a live one gets tainted; the pods on it are the business of tainteviction.
package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/node/topology"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one node at a time.
type Reconciler struct {
	Client client.Client
	// Live tells whether a lease that seems to have ended has ended indeed.
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
	// Patience is how long nodes may be silent.
	Patience Patience
	Pace     Pace

	mu sync.Mutex
	// heartbeats, evicted and survey are guarded by mu: what each node (by name) last said, when the last node of a zone was
	// given a NoExecute taint, and what all nodes were like when somebody last looked.
	heartbeats map[string]heartbeat
	evicted    map[string]time.Time
	survey     survey
}

// heartbeat is the last sign of life of a node. heard is by the clock of this process, because nobody's clock is to be
// trusted with the life of a node.
type heartbeat struct {
	uid    types.UID
	lease  metav1.MicroTime
	status metav1.Time
	// reports tells whether it has said if it is ready.
	reports bool
	heard   time.Time
	// failed is when the node was first seen to be not ready; zero if it is ready.
	failed time.Time
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	if err := setup.Register(evictions, passDuration); err != nil {
		return err
	}
	r := &Reconciler{
		Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock,
		Patience: patienceOf(env.Settings), Pace: paceOf(env.Settings),
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Node{}).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(nodeOf)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// nodeOf maps a lease to the node that renews it.
func nodeOf(_ context.Context, lease client.Object) []reconcile.Request {
	if lease.GetNamespace() != corev1.NamespaceNodeLease {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: lease.GetName()}}}
}

// Reconcile judges the health of the node in req and brings conditions, pods and taints in line with it.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			r.part(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	evictions.WithLabelValues(topology.GetZoneKey(node)).Add(0) // told of before there is any
	now := r.Clock.Now()
	defer func() { passDuration.Observe(r.Clock.Since(now).Seconds()) }()
	lease, err := r.lease(ctx, r.Client, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.meet(node, now)
	end := r.Patience.deadline(node, r.listen(node, lease, now))
	if !now.Before(end) {
		if alive, err := r.markUnknown(ctx, node, lease, now); alive || err != nil {
			return reconcile.Result{RequeueAfter: monitorPeriod}, err
		}
	}
	var unmarked error
	if c := condition(node, corev1.NodeReady); c != nil && c.Status == corev1.ConditionUnknown {
		unmarked = r.markPods(ctx, node)
	}
	again, err := r.taint(ctx, node, now)
	if err != nil {
		return reconcile.Result{}, errors.Join(unmarked, err)
	}
	if now.Before(end) {
		again = sooner(again, end.Sub(now))
	}
	if unmarked != nil {
		// What is in the way may itself be on the node, such as a webhook. So the node must not miss its turn to be tainted for
		// it, as it would with the longer and longer delays after an error.
		ctrl.LoggerFrom(ctx).Error(unmarked, "Not all pods of a silent node could be marked, trying again")
		again = sooner(again, monitorPeriod)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// sooner is the shorter one of two times to wait, of which 0 is for ever.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// lease returns the lease of the node, an empty one if it has none.
func (r *Reconciler) lease(ctx context.Context, reader client.Reader, node *corev1.Node) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the lease of node %q: %w", node.Name, err)
	}
	return lease, nil
}

// meet takes a node in that this process has not seen yet, and tells of it.
func (r *Reconciler) meet(node *corev1.Node, now time.Time) {
	r.mu.Lock()
	last, known := r.heartbeats[node.Name]
	known = known && last.uid == node.UID
	if !known {
		if r.heartbeats == nil {
			r.heartbeats = map[string]heartbeat{}
		}
		last = heartbeat{uid: node.UID, reports: condition(node, corev1.NodeReady) != nil, heard: now}
		if !last.reports {
			last.heard = node.CreationTimestamp.Time // this process need not be the first that has waited for it
		}
		r.heartbeats[node.Name] = last
	}
	r.mu.Unlock()
	if !known {
		r.tell(node.Name, node.UID, "RegisteredNode", "Registered Node "+node.Name+" in Controller")
	}
}

// part forgets a node that is gone, and tells of it.
func (r *Reconciler) part(name string) {
	r.mu.Lock()
	last, known := r.heartbeats[name]
	delete(r.heartbeats, name)
	r.mu.Unlock()
	if known {
		r.tell(name, last.uid, "RemovingNode", "Removing Node "+name+" from Controller")
	}
}

// tell records an event of a node, which need not exist any more.
func (r *Reconciler) tell(name string, uid types.UID, reason, text string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}
	r.Events.Eventf(ref, corev1.EventTypeNormal, reason, "Node %s event: %s", name, text)
}

// listen returns when a node that was met was last heard of, by lease or by status.
func (r *Reconciler) listen(node *corev1.Node, lease *coordinationv1.Lease, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.heartbeats[node.Name]
	// Any other time will do, not only a later one: the node's clock may have been set back.
	if lease.Spec.RenewTime != nil && !last.lease.Equal(lease.Spec.RenewTime) {
		last.lease, last.heard = *lease.Spec.RenewTime, now
	}
	c := condition(node, corev1.NodeReady)
	if reports := c != nil; reports != last.reports {
		last.reports, last.heard = reports, now
	}
	if c != nil && !last.status.Equal(&c.LastHeartbeatTime) {
		last.status, last.heard = c.LastHeartbeatTime, now
	}
	if readiness(node) == corev1.ConditionTrue {
		last.failed = time.Time{}
	}
	r.heartbeats[node.Name] = last
	return last.heard
}

// failedSince returns when a node that is not ready failed.
func (r *Reconciler) failedSince(node *corev1.Node, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.heartbeats[node.Name]
	if last.failed.IsZero() {
		last.failed = now
		r.heartbeats[node.Name] = last
	}
	return last.failed
}

// isRenewed reports whether it is the cache that is silent and not the node: then the API server has another lease, and the next
// pass waits until the cache has it too. Otherwise all nodes would die with a watch that stands still. Upstream asks in the same
// way (NodeControllerLeaseCircuitBreaker), and holds all nodes back at the first answer of that kind; here each node asks once.
func (r *Reconciler) isRenewed(ctx context.Context, node *corev1.Node, cached *coordinationv1.Lease) (bool, error) {
	live, err := r.lease(ctx, r.Live, node)
	if err != nil || live.ResourceVersion == "" || live.ResourceVersion == cached.ResourceVersion {
		return false, err
	}
	return true, ownwrites.Await(ctx, r.Client, live)
}

// markUnknown writes down that nothing is known about the node any more, unless it is alive by what the API server has.
func (r *Reconciler) markUnknown(ctx context.Context, node *corev1.Node, lease *coordinationv1.Lease, now time.Time) (alive bool, err error) {
	conditions := unknown(node, now)
	if equality.Semantic.DeepEqual(conditions, node.Status.Conditions) {
		return false, nil
	}
	if renewed, err := r.isRenewed(ctx, node, lease); renewed || err != nil {
		return renewed, err
	}
	wasReady := readiness(node) == corev1.ConditionTrue
	node.Status.Conditions = conditions
	if err := r.Client.Status().Update(ctx, node); err != nil {
		return false, fmt.Errorf("updating the status of node %q: %w", node.Name, err)
	}
	if wasReady {
		r.Events.Eventf(node, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: %s", node.Name, "NodeNotReady")
	}
	return false, nil
}

// markPods takes the pods of an unreachable node out of service: Services must not send anything there. That one cannot be marked
// does not keep it from the others.
func (r *Reconciler) markPods(ctx context.Context, node *corev1.Node) error {
	there, err := pods.OnNode(ctx, r.Client, node.Name)
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range there {
		if !pods.IsReady(pod) {
			continue
		}
		pod = pod.DeepCopy()
		c := pods.Condition(pod, corev1.PodReady)
		c.Status = corev1.ConditionFalse
		c.LastTransitionTime = metav1.NewTime(r.Clock.Now())
		if err := r.Client.Status().Update(ctx, pod); err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("marking pod %q on node %q not ready: %w", pod.Name, node.Name, err))
			}
			continue
		}
		r.Events.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return errors.Join(errs...)
}

// taint writes the taints and older labels of the node. again is when to come back for what no event tells of: the turn of this node to get its
// NoExecute taint, and the state of the others.
func (r *Reconciler) taint(ctx context.Context, node *corev1.Node, now time.Time) (again time.Duration, err error) {
	evict := false
	if evictionTaint(node) != "" {
		if evict, again, err = r.mayEvict(ctx, node, now); err != nil {
			return 0, err
		}
	}
	wanted, labels := taints(node, evict, now), relabelled(node.Labels)
	if equality.Semantic.DeepEqual(wanted, node.Spec.Taints) && maps.Equal(labels, node.Labels) {
		return again, nil
	}
	before := node.DeepCopy()
	node.Spec.Taints, node.Labels = wanted, labels
	if err := r.Client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if evict && !hasAnyEvictionTaint(before) {
		evictions.WithLabelValues(topology.GetZoneKey(node)).Inc()
	}
	return again, nil
}

// mayEvict reports whether a node that is not ready may have its NoExecute taint now, and when to ask again.
func (r *Reconciler) mayEvict(ctx context.Context, node *corev1.Node, now time.Time) (evict bool, again time.Duration, err error) {
	tainted := hasAnyEvictionTaint(node)
	if settled := r.failedSince(node, now).Add(monitorPeriod); !tainted && now.Before(settled) {
		return false, settled.Sub(now), nil
	}
	found, err := r.look(ctx, now)
	if err != nil {
		return false, 0, err
	}
	zone := topology.GetZoneKey(node)
	r.mu.Lock()
	defer r.mu.Unlock()
	evict, turn, again := r.Pace.decide(found, zone, tainted, r.evicted[zone], now)
	if turn {
		if r.evicted == nil {
			r.evicted = map[string]time.Time{}
		}
		r.evicted[zone] = now
	}
	return evict, again, nil
}

// look returns what all nodes are like, or were a moment ago: many nodes may ask at the same time, and not each of them may have
// to look at all others.
func (r *Reconciler) look(ctx context.Context, now time.Time) (survey, error) {
	r.mu.Lock()
	last := r.survey
	r.mu.Unlock()
	if last.at.Add(surveyPeriod).After(now) {
		return last, nil
	}
	nodes, err := ownwrites.Peek[*corev1.Node](ctx, r.Client, &corev1.NodeList{})
	if err != nil {
		return survey{}, fmt.Errorf("listing nodes: %w", err)
	}
	found := newSurvey(nodes, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.survey = found
	return found, nil
}

// hasAnyEvictionTaint reports whether the node's pods are being evicted already, if for another reason: going from not
// ready to unreachable does not have to wait.
func hasAnyEvictionTaint(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute && isOurs(t) {
			return true
		}
	}
	return false
}

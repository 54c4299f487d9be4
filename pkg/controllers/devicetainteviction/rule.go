// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicetainteviction

import (
	"context"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourcev1apply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// fieldManager owns the condition of rules.
const fieldManager = "device-taint-eviction-controller"

// RuleReconciler tells in the status of a rule what it does.
type RuleReconciler struct {
	Client client.Client
	Clock  clock.PassiveClock

	cluster *cluster
	evicted *evicted
}

// Reconcile writes the condition EvictionInProgress of the rule in req, when its spec has changed at once, else every ten seconds.
func (r *RuleReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rule := &resourcev1.DeviceTaintRule{}
	if err := r.Client.Get(ctx, req.NamespacedName, rule); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Clock.Now()
	before := meta.FindStatusCondition(rule.Status.Conditions, resourcev1.DeviceTaintConditionEvictionInProgress)
	if before != nil && before.ObservedGeneration == rule.Generation {
		if since := now.Sub(before.LastTransitionTime.Time); since < statusPeriod {
			return reconcile.Result{RequeueAfter: statusPeriod - since}, nil
		}
	}
	counted, err := r.count(ctx, rule)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("counting what rule %q concerns: %w", rule.Name, err)
	}
	after := describe(rule, counted)
	again := time.Duration(0)
	if after.Status == metav1.ConditionTrue {
		again = statusPeriod
	}
	if before != nil {
		after.LastTransitionTime = before.LastTransitionTime
		if after == *before {
			return reconcile.Result{RequeueAfter: again}, nil
		}
	}
	condition := metav1apply.Condition().WithType(after.Type).WithStatus(after.Status).WithReason(after.Reason).WithMessage(after.Message).
		WithObservedGeneration(after.ObservedGeneration).WithLastTransitionTime(metav1.NewTime(now))
	patch := resourcev1apply.DeviceTaintRule(rule.Name).WithUID(rule.UID).WithStatus(resourcev1apply.DeviceTaintRuleStatus().WithConditions(condition))
	if err := setup.ApplyStatus(ctx, r.Client, rule, patch, fieldManager); err != nil {
		return reconcile.Result{}, fmt.Errorf("add condition to DeviceTaintRule status: %w", err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// counts is what a rule concerns.
type counts struct {
	// pods have to go, in so many namespaces.
	pods, namespaces int
	// evicted pods have gone.
	evicted int
	// published and allocated devices are selected; they are counted for rules without effect only.
	published, allocated int
}

func (r *RuleReconciler) count(ctx context.Context, rule *resourcev1.DeviceTaintRule) (counts, error) {
	n := counts{evicted: r.evicted.of(rule.UID)}
	switch rule.Spec.Taint.Effect {
	case resourcev1.DeviceTaintEffectNone:
		if err := r.countDevices(ctx, rule, &n); err != nil {
			return n, err
		}
	case resourcev1.DeviceTaintEffectNoExecute:
	default:
		return n, nil
	}
	// What a rule without effect would do is what it does with the effect.
	armed := rule.DeepCopy()
	armed.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute
	taints := Taints{Slices: func(Pool) ([]resourcev1.ResourceSlice, error) { return nil, nil }, Rules: []resourcev1.DeviceTaintRule{*armed}}
	users, err := r.cluster.podsWithClaims(ctx)
	if err != nil {
		return n, err
	}
	namespaces := sets.New[string]()
	for _, pod := range users {
		eviction, err := taints.ofPod(pod, r.cluster.claim(ctx, pod.Namespace))
		if err != nil {
			return n, err
		}
		if eviction != nil {
			n.pods++
			namespaces.Insert(pod.Namespace)
		}
	}
	n.namespaces = namespaces.Len()
	return n, nil
}

// countDevices counts the devices that a rule selects.
func (r *RuleReconciler) countDevices(ctx context.Context, rule *resourcev1.DeviceTaintRule, n *counts) error {
	var list resourcev1.ResourceSliceList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing resource slices: %w", err)
	}
	pools := map[Pool][]resourcev1.ResourceSlice{}
	for _, slice := range list.Items {
		pool := Pool{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
		pools[pool] = append(pools[pool], slice)
	}
	for pool, slices := range pools {
		for _, slice := range current(slices) {
			for i := range slice.Spec.Devices {
				if Selects(rule, pool.Driver, pool.Name, slice.Spec.Devices[i].Name) {
					n.published++
				}
			}
		}
	}
	claims, err := r.cluster.allocated(ctx)
	if err != nil {
		return err
	}
	for i := range claims {
		for _, device := range claims[i].Status.Allocation.Devices.Results {
			if Selects(rule, device.Driver, device.Pool, device.Device) {
				n.allocated++
			}
		}
	}
	return nil
}

// describe returns the condition of a rule, without time.
func describe(rule *resourcev1.DeviceTaintRule, n counts) metav1.Condition {
	c := metav1.Condition{Type: resourcev1.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse, ObservedGeneration: rule.Generation}
	switch effect := rule.Spec.Taint.Effect; {
	case effect == resourcev1.DeviceTaintEffectNone:
		c.Reason = "NoEffect"
		c.Message = plural(n.published, "published device", "published devices") + " selected. " +
			plural(n.allocated, "allocated device", "allocated devices") + " selected. " +
			plural(n.pods, "pod", "pods") + " would be evicted in " + plural(n.namespaces, "namespace", "different namespaces") +
			" if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
	case effect != resourcev1.DeviceTaintEffectNoExecute:
		c.Reason, c.Message = "OtherEffect", "Eviction only happens for the NoExecute effect."
	case n.pods > 0:
		c.Status, c.Reason = metav1.ConditionTrue, "PodsPendingEviction"
		c.Message = plural(n.pods, "pod needs", "pods need") + " to be evicted in " + plural(n.namespaces, "namespace", "different namespaces") + "."
	case n.evicted > 0:
		c.Reason = "Completed"
	default:
		c.Reason = "NotStarted"
	}
	if n.evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += plural(n.evicted, "pod", "pods") + " evicted since starting the controller."
	}
	return c
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

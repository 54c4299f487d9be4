// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicetainteviction

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// cluster reads what decisions rest on. What it returns belongs to the cache.
type cluster struct {
	client client.Reader
	// slices narrows a list down to a pool as far as the reader can.
	slices func(Pool) client.ListOption
}

// taints returns the taints of all devices.
func (c *cluster) taints(ctx context.Context) (Taints, error) {
	var rules resourcev1.DeviceTaintRuleList
	if err := c.client.List(ctx, &rules, client.UnsafeDisableDeepCopy); err != nil {
		return Taints{}, fmt.Errorf("listing device taint rules: %w", err)
	}
	return Taints{Slices: func(pool Pool) ([]resourcev1.ResourceSlice, error) { return c.pool(ctx, pool) }, Rules: rules.Items}, nil
}

func (c *cluster) pool(ctx context.Context, pool Pool) ([]resourcev1.ResourceSlice, error) {
	var list resourcev1.ResourceSliceList
	if err := c.client.List(ctx, &list, c.slices(pool), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing resource slices: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(s resourcev1.ResourceSlice) bool {
		return s.Spec.Driver != pool.Driver || s.Spec.Pool.Name != pool.Name
	}), nil
}

// claim returns how to find the claims of a namespace; those that do not exist are nil.
func (c *cluster) claim(ctx context.Context, namespace string) func(string) (*resourcev1.ResourceClaim, error) {
	return func(name string) (*resourcev1.ResourceClaim, error) {
		claim := &resourcev1.ResourceClaim{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("getting resource claim %q: %w", name, err)
		}
		return claim, nil
	}
}

// allocated lists the claims that have devices.
func (c *cluster) allocated(ctx context.Context) ([]resourcev1.ResourceClaim, error) {
	var list resourcev1.ResourceClaimList
	if err := c.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing resource claims: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(c resourcev1.ResourceClaim) bool { return c.Status.Allocation == nil }), nil
}

// usersOfSlice maps a slice to the pods with devices of its pool.
func (c *cluster) usersOfSlice(ctx context.Context, obj client.Object) []reconcile.Request {
	slice := obj.(*resourcev1.ResourceSlice)
	return c.usersOf(ctx, func(d resourcev1.DeviceRequestAllocationResult) bool {
		return d.Driver == slice.Spec.Driver && d.Pool == slice.Spec.Pool.Name
	})
}

// usersOfRule maps a rule to all pods with devices: it may have been about others before.
func (c *cluster) usersOfRule(ctx context.Context, _ client.Object) []reconcile.Request {
	return c.usersOf(ctx, func(resourcev1.DeviceRequestAllocationResult) bool { return true })
}

func (c *cluster) usersOf(ctx context.Context, concerned func(resourcev1.DeviceRequestAllocationResult) bool) []reconcile.Request {
	claims, err := c.allocated(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Mapping device taints to pods")
		return nil
	}
	var requests []reconcile.Request
	for i := range claims {
		if slices.ContainsFunc(claims[i].Status.Allocation.Devices.Results, concerned) {
			requests = append(requests, users(ctx, &claims[i])...)
		}
	}
	return requests
}

// evictingRules maps a change of pods or claims to the rules whose status counts them.
func (c *cluster) evictingRules(ctx context.Context, _ client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, c.client, &resourcev1.DeviceTaintRuleList{}, func(rule *resourcev1.DeviceTaintRule) bool {
		return rule.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNoExecute
	})
}

// podsWithClaims lists the pods that may have to go.
func (c *cluster) podsWithClaims(ctx context.Context) ([]*corev1.Pod, error) {
	found, err := ownwrites.Peek[*corev1.Pod](ctx, c.client, &corev1.PodList{}, client.MatchingFields{pods.DevicesField: pods.WithDevices})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return slices.DeleteFunc(found, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// evicted counts the pods that went because of a rule, since this process began. It is safe for concurrent use.
type evicted struct {
	mu sync.Mutex
	// count is guarded by mu.
	count map[types.UID]int
}

func (e *evicted) add(eviction *Eviction) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count == nil {
		e.count = map[types.UID]int{}
	}
	for rule := range eviction.Rules {
		e.count[rule]++
	}
}

func (e *evicted) of(rule types.UID) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count[rule]
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"
)

const (
	// maxDisrupted bounds the evictions that a budget's controller has not seen yet.
	maxDisrupted = 2000
	// retrySeconds is when clients are told to ask again about a budget that is not up to date.
	retrySeconds = 10

	overBudget = "Cannot evict pod as it would violate the pod's disruption budget."
)

var budgets = schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}

// budget finds the disruption budget of a pod and the store that it is in; nil if there is none.
func (r *EvictionREST) budget(ctx context.Context, p *corev1.Pod) (*policyv1.PodDisruptionBudget, *genericregistry.Store, error) {
	store, err := r.stores.Get(budgets)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // budgets are not served, so nobody has one
	}
	if len(p.Labels) == 0 {
		return nil, nil, nil
	}
	obj, err := store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	list, ok := obj.(*policyv1.PodDisruptionBudgetList)
	if !ok {
		return nil, nil, fmt.Errorf("unexpected list of disruption budgets: %T", obj)
	}
	var found *policyv1.PodDisruptionBudget
	for i := range list.Items {
		b := &list.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(p.Labels)) {
			continue // a selector that cannot be read selects nothing
		}
		if found != nil {
			return nil, nil, tooMany()
		}
		found = b
	}
	return found, store, nil
}

// take counts the eviction of a pod against a budget.
func (r *EvictionREST) take(ctx context.Context, store *genericregistry.Store, budget, pod string, dry bool) error {
	key, err := store.KeyFunc(ctx, budget)
	if err != nil {
		return err
	}
	err = store.Storage.GuaranteedUpdate(ctx, key, &policyv1.PodDisruptionBudget{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		b := obj.(*policyv1.PodDisruptionBudget)
		return b, decrement(b, pod, time.Now())
	}), dry, nil)
	if err == nil {
		return nil
	}
	if _, ok := err.(apierrors.APIStatus); ok {
		return err
	}
	return storeerr.InterpretUpdateError(err, budgets, budget)
}

// decrement takes one disruption from a budget, or tells why there is none to take.
func decrement(b *policyv1.PodDisruptionBudget, pod string, now time.Time) error {
	forbid := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}, b.Name, fmt.Errorf("%s", why))
	}
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return refuse(retrySeconds, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed < 0:
		return forbid("pdb disruptions allowed is negative")
	case len(b.Status.DisruptedPods) > maxDisrupted:
		return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case b.Status.DisruptionsAllowed == 0:
		return refuse(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy))
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptionsAllowed == 0 {
		pdbhelper.UpdateDisruptionAllowedCondition(b)
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	// The controller counts the pod as gone until it is, or until it has not happened for two minutes.
	b.Status.DisruptedPods[pod] = metav1.Time{Time: now}
	return nil
}

func refuse(retry int, why string) error {
	err := apierrors.NewTooManyRequests(overBudget, retry)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: why})
	return err
}

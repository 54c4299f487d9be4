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
	"k8s.io/apimachinery/pkg/api/meta"
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
	forbid := func(why, short string) error {
		err := apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}, b.Name, fmt.Errorf("%s", why))
		return because(err, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: %s", b.Name, short))
	}
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return refuse(retrySeconds, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed < 0:
		return forbid("pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	case len(b.Status.DisruptedPods) > maxDisrupted:
		return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller", "too many pending evictions not confirmed by PDB controller")
	case b.Status.DisruptionsAllowed == 0:
		return refuse(0, exhausted(b))
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

// exhausted says why a budget has no disruption to give. How many pods are healthy is not known when its controller has failed.
func exhausted(b *policyv1.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	told := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch text := fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name); {
	case told && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("%s because it failed sync: %s", text, c.Message)
	case b.Status.CurrentHealthy <= b.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	case told:
		return fmt.Sprintf("%s (%s): %s", text, c.Reason, c.Message)
	default:
		return text
	}
}

func refuse(retry int, why string) error {
	return because(apierrors.NewTooManyRequests(overBudget, retry), why)
}

// because adds what clients show of a refusal.
func because(err *apierrors.StatusError, why string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: why})
	return err
}

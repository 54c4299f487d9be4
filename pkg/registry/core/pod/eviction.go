// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
)

// EvictionREST is the eviction subresource: a deletion that asks the pod's disruption budget first.
type EvictionREST struct {
	pods   *genericregistry.Store
	stores *registry.Stores
	// backoff is between attempts that have met with a conflict.
	backoff wait.Backoff
}

// evictionBackoff is upstream's: ten seconds in all.
var evictionBackoff = wait.Backoff{Steps: 20, Duration: 500 * time.Millisecond, Factor: 1, Jitter: 0.1}

var (
	_ rest.NamedCreater             = (*EvictionREST)(nil)
	_ rest.GroupVersionKindProvider = (*EvictionREST)(nil)
	_ rest.GroupVersionAcceptor     = (*EvictionREST)(nil)
)

// New implements rest.Storage.
func (r *EvictionREST) New() runtime.Object { return &policyv1.Eviction{} }

// Destroy implements rest.Storage; the main resource owns the store.
func (r *EvictionREST) Destroy() {}

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (r *EvictionREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

// AcceptsGroupVersion implements rest.GroupVersionAcceptor.
func (r *EvictionREST) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv == policyv1.SchemeGroupVersion
}

// Create implements rest.NamedCreater. It answers 429 while the budget forbids the eviction.
func (r *EvictionREST) Create(ctx context.Context, name string, obj runtime.Object, admit rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	e, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
	}
	if name != e.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	if o := e.DeleteOptions; o != nil && ptr.Deref(o.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		return nil, apierrors.NewInvalid(policyv1.SchemeGroupVersion.WithKind("Eviction").GroupKind(), name, field.ErrorList{field.Invalid(
			field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true, "can not be set for pod eviction, try after removing the option")})
	}
	del, err := deleteOptions(e, options)
	if err != nil {
		return nil, err
	}
	if admit != nil {
		if err := admit(ctx, e.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if err := r.insist(ctx, name, del); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// insist evicts, and tries again with some patience while the pod changes in between. It fails with the last conflict if that
// goes on for too long.
func (r *EvictionREST) insist(ctx context.Context, name string, del *metav1.DeleteOptions) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, r.backoff, func(ctx context.Context) (bool, error) {
		var again bool
		again, last = r.evict(ctx, name, del.DeepCopy())
		if again {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

// deleteOptions are those of the eviction, with dry run also taken from the request.
func deleteOptions(e *policyv1.Eviction, options *metav1.CreateOptions) (*metav1.DeleteOptions, error) {
	del := e.DeleteOptions.DeepCopy()
	if del == nil {
		del = &metav1.DeleteOptions{}
	}
	if len(options.DryRun) == 0 {
		return del, nil
	}
	if len(del.DryRun) > 0 && !slices.Equal(del.DryRun, options.DryRun) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", options.DryRun, del.DryRun))
	}
	del.DryRun = options.DryRun
	return del, nil
}

func (r *EvictionREST) get(ctx context.Context, name string) (*corev1.Pod, error) {
	obj, err := r.pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Pod), nil
}

// evict tries once. again tells that another attempt may succeed: the pod has changed, and no budget was asked for it.
func (r *EvictionREST) evict(ctx context.Context, name string, del *metav1.DeleteOptions) (again bool, err error) {
	p, err := r.get(ctx, name)
	if err != nil {
		return false, err
	}
	if c := del.Preconditions; c != nil && c.UID != nil && *c.UID != "" && *c.UID != p.UID {
		// Before a budget is asked for a pod that shall not be evicted.
		return false, apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, name, fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *c.UID, p.UID))
	}
	pinned := del.Preconditions != nil && del.Preconditions.ResourceVersion != nil // the client insists on one revision
	if ignoresBudget(p) {
		if p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil {
			pin(del, p.ResourceVersion) // it must not become ready unseen
		}
		err := r.remove(ctx, name, del)
		return apierrors.IsConflict(err) && !pinned, err
	}
	budget, err := r.ask(ctx, p, dryrun.IsDryRun(del.DryRun))
	if err != nil {
		return false, err
	}
	if budget == "" {
		return false, r.remove(ctx, name, del)
	}
	pin(del, p.ResourceVersion)
	err = r.remove(ctx, name, del)
	if apierrors.IsConflict(err) && !pinned {
		// Perhaps it is healthy by now. The client asks again later.
		err = refuse(retrySeconds, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
	}
	return false, err
}

// remove tells in the pod why it ends, and deletes it.
func (r *EvictionREST) remove(ctx context.Context, name string, del *metav1.DeleteOptions) error {
	if !dryrun.IsDryRun(del.DryRun) {
		if err := r.mark(ctx, name, del); err != nil {
			return err
		}
	}
	_, _, err := r.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, del)
	return err
}

// ignoresBudget tells that a pod serves nobody, so that its end disrupts nobody.
func ignoresBudget(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed ||
		p.Status.Phase == corev1.PodPending || p.DeletionTimestamp != nil
}

// pin makes a deletion fail if the pod has changed since revision.
func pin(del *metav1.DeleteOptions, revision string) {
	if del.Preconditions == nil {
		del.Preconditions = &metav1.Preconditions{}
	}
	if del.Preconditions.ResourceVersion == nil {
		del.Preconditions.ResourceVersion = &revision
	}
}

// mark tells in the status of the pod why it ends (KEP-3329).
func (r *EvictionREST) mark(ctx context.Context, name string, del *metav1.DeleteOptions) error {
	key, err := r.pods.KeyFunc(ctx, name)
	if err != nil {
		return err
	}
	var preconditions *storage.Preconditions
	if c := del.Preconditions; c != nil {
		preconditions = &storage.Preconditions{UID: c.UID}
		if ptr.Deref(c.ResourceVersion, "") != "" { // an empty one is for the deletion to judge, as upstream
			preconditions.ResourceVersion = c.ResourceVersion
		}
	}
	out := &corev1.Pod{}
	err = r.pods.Storage.GuaranteedUpdate(ctx, key, out, false, preconditions, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		p := obj.(*corev1.Pod)
		setCondition(&p.Status, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		})
		return p, nil
	}), false, nil)
	if err != nil {
		err = storeerr.InterpretGetError(err, Resource.GroupResource(), name)
		return storeerr.InterpretUpdateError(err, Resource.GroupResource(), name)
	}
	if del.Preconditions != nil && del.Preconditions.ResourceVersion != nil {
		del.Preconditions.ResourceVersion = &out.ResourceVersion
	}
	return nil
}

// ask takes the eviction from the pod's disruption budget; it fails with 429 if the budget allows none. A pod that is not ready
// may go without if the budget says so, which is named then: nothing was taken from it, so the pod must not become ready.
func (r *EvictionREST) ask(ctx context.Context, p *corev1.Pod, dry bool) (unasked string, err error) {
	budget, store, err := r.budget(ctx, p)
	if err != nil || budget == nil {
		return "", err
	}
	if !hasCondition(&p.Status, corev1.PodReady) && freeToGo(budget) {
		return budget.Name, nil
	}
	return "", r.take(ctx, store, budget.Name, p.Name, dry)
}

// freeToGo tells whether pods that are not ready may go without asking (KEP-3017).
func freeToGo(b *policyv1.PodDisruptionBudget) bool {
	if u := b.Spec.UnhealthyPodEvictionPolicy; u != nil && *u == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// tooMany is the error for pods that more than one budget guards.
func tooMany() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonInternalError,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}}
}

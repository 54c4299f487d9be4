// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
}

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
	pinned := del.Preconditions != nil && del.Preconditions.ResourceVersion != nil
	for {
		err := r.evict(ctx, name, del.DeepCopy())
		// A pod that changed in between is looked at again, unless the client insists on one revision.
		if err == nil || pinned || !apierrors.IsConflict(err) || ctx.Err() != nil {
			if err != nil {
				return nil, err
			}
			return &metav1.Status{Status: metav1.StatusSuccess}, nil
		}
		if del.Preconditions != nil && del.Preconditions.UID != nil {
			p, gerr := r.get(ctx, name)
			if gerr != nil {
				return nil, gerr
			}
			if p.UID != *del.Preconditions.UID {
				return nil, err
			}
		}
	}
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

func (r *EvictionREST) evict(ctx context.Context, name string, del *metav1.DeleteOptions) error {
	p, err := r.get(ctx, name)
	if err != nil {
		return err
	}
	dry := dryrun.IsDryRun(del.DryRun)
	if ignoresBudget(p) {
		if p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil {
			pin(del, p.ResourceVersion) // it must not become ready unseen
		}
		return r.remove(ctx, name, del)
	}
	healthy, err := r.ask(ctx, p, dry)
	if err != nil {
		return err
	}
	if !healthy {
		pin(del, p.ResourceVersion)
	}
	if !dry {
		if err := r.mark(ctx, p.Name, del); err != nil {
			return err
		}
	}
	return r.remove(ctx, name, del)
}

func (r *EvictionREST) remove(ctx context.Context, name string, del *metav1.DeleteOptions) error {
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
		preconditions = &storage.Preconditions{UID: c.UID, ResourceVersion: c.ResourceVersion}
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

// ask takes the eviction from the pod's disruption budget. It tells whether the pod was healthy, that is, whether
// anything was taken; it fails with 429 if the budget allows none.
func (r *EvictionREST) ask(ctx context.Context, p *corev1.Pod, dry bool) (healthy bool, err error) {
	budget, store, err := r.budget(ctx, p)
	if err != nil || budget == nil {
		return true, err
	}
	if !hasCondition(&p.Status, corev1.PodReady) && freeToGo(budget) {
		return false, nil
	}
	return true, r.take(ctx, store, budget.Name, p.Name, dry)
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

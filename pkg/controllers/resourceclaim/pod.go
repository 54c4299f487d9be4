// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// fieldManager owns status.resourceClaimStatuses of pods.
	fieldManager = "ResourceClaimController"
	// maxBase is the length of a generated name without its five random characters and the hyphen before them.
	maxBase = 57
)

// PodReconciler gives a pod the claims that it asks for.
type PodReconciler struct {
	Client client.Client
	// Live is asked before a claim is made anew that the cache does not have.
	Live   client.Reader
	Events record.EventRecorder
}

// Reconcile makes the claims of the pod in req and, if something else than the scheduler has put it on a node, reserves them.
func (r *PodReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.DeletionTimestamp != nil || isDone(pod) {
		// The claims of a pod that has ended are given up: made or reserved anew, they would be given up again, and so on for ever.
		return reconcile.Result{}, nil
	}
	made := map[string]string{}
	for i := range pod.Spec.ResourceClaims {
		wanted := &pod.Spec.ResourceClaims[i]
		claim, err := r.provide(ctx, pod, wanted)
		if err != nil {
			r.Events.Eventf(pod, corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: %v", wanted.Name, err)
			return reconcile.Result{}, fmt.Errorf("providing claim %q of pod %q: %w", wanted.Name, pod.Name, err)
		}
		if claim != "" {
			made[wanted.Name] = claim
		}
	}
	if len(made) > 0 {
		status := corev1apply.PodStatus().WithResourceClaimStatuses(statuses(pod.Status.ResourceClaimStatuses, made)...)
		if err := setup.ApplyStatus(ctx, r.Client, pod, corev1apply.Pod(pod.Name, pod.Namespace).WithStatus(status), fieldManager); err != nil {
			return reconcile.Result{}, fmt.Errorf("writing the claims of pod %q: %w", pod.Name, err)
		}
	}
	if pod.Spec.NodeName == "" || len(made) > 0 {
		// The scheduler reserves claims, and new claims are not allocated.
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.reserve(ctx, pod)
}

// provide returns the name of the claim that was made for the pod, or "" if nothing is new.
func (r *PodReconciler) provide(ctx context.Context, pod *corev1.Pod, wanted *corev1.PodResourceClaim) (string, error) {
	name, own, err := resourceclaim.Name(pod, wanted)
	switch {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
	case err != nil:
		return "", fmt.Errorf("checking for claim before creating it: %w", err)
	case name == nil || wanted.ResourceClaimTemplateName == nil:
		return "", nil
	default:
		exists, err := r.exists(ctx, pod, *name, own)
		if err != nil {
			return "", fmt.Errorf("checking claim existence: %w", err)
		}
		if exists {
			return "", nil
		}
	}
	claim, err := r.orphan(ctx, pod, wanted.Name)
	if err != nil {
		return "", err
	}
	if claim == nil {
		var template resourcev1.ResourceClaimTemplate
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: *wanted.ResourceClaimTemplateName}, &template)
		if apierrors.IsNotFound(err) { // a cache names the kind, where upstream's names the resource
			err = apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplate"), *wanted.ResourceClaimTemplateName)
		}
		if err != nil {
			return "", fmt.Errorf("resource claim template %q: %w", *wanted.ResourceClaimTemplateName, err)
		}
		claim = fromTemplate(pod, wanted.Name, &template)
		if err := r.Client.Create(ctx, claim); err != nil {
			return "", fmt.Errorf("create ResourceClaim %s: %w", claim.Name, err)
		}
	}
	return claim.Name, nil
}

// exists tells whether a claim that was made for the pod is still there; somebody may have deleted it.
func (r *PodReconciler) exists(ctx context.Context, pod *corev1.Pod, name string, own bool) (bool, error) {
	var claim resourcev1.ResourceClaim
	key := client.ObjectKey{Namespace: pod.Namespace, Name: name}
	err := r.Client.Get(ctx, key, &claim)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, &claim)
	}
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return !own || resourceclaim.IsForPod(pod, &claim, false) == nil, nil
}

// orphan looks for a claim that was made for the pod before its name could be written down.
func (r *PodReconciler) orphan(ctx context.Context, pod *corev1.Pod, wanted string) (*resourcev1.ResourceClaim, error) {
	own, err := ownwrites.Peek[*resourcev1.ResourceClaim](ctx, r.Client, &resourcev1.ResourceClaimList{}, index.ControlledBy(pod.Namespace, pod.UID))
	if err != nil {
		return nil, fmt.Errorf("listing resource claims: %w", err)
	}
	for _, claim := range own {
		if claim.Annotations[resourcev1.PodResourceClaimAnnotation] == wanted {
			return claim, nil
		}
	}
	return nil, nil
}

// reserve enters the pod into its allocated claims.
func (r *PodReconciler) reserve(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return fmt.Errorf("reserving claims: %w", err)
		}
		if name == nil {
			continue
		}
		var claim resourcev1.ResourceClaim
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: *name}, &claim); err != nil {
			return client.IgnoreNotFound(err)
		}
		if own {
			if err := resourceclaim.IsForPod(pod, &claim, false); err != nil {
				return err
			}
		}
		if claim.Status.Allocation == nil || resourceclaim.IsReservedForPod(pod, &claim, false) || !resourceclaim.CanBeReserved(&claim) {
			continue
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		if err := r.Client.Status().Update(ctx, &claim); err != nil {
			return fmt.Errorf("reserve claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

// statuses joins the claims that a pod is known to have and those that were made now, by name.
func statuses(known []corev1.PodResourceClaimStatus, made map[string]string) []*corev1apply.PodResourceClaimStatusApplyConfiguration {
	all := map[string]string{}
	for _, s := range known {
		if s.ResourceClaimName != nil {
			all[s.Name] = *s.ResourceClaimName
		}
	}
	maps.Copy(all, made)
	var joined []*corev1apply.PodResourceClaimStatusApplyConfiguration
	for _, name := range slices.Sorted(maps.Keys(all)) {
		joined = append(joined, corev1apply.PodResourceClaimStatus().WithName(name).WithResourceClaimName(all[name]))
	}
	return joined
}

// fromTemplate returns the claim that a pod calls wanted.
func fromTemplate(pod *corev1.Pod, wanted string, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	annotations := maps.Clone(template.Spec.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourcev1.PodResourceClaimAnnotation] = wanted
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pod.Namespace,
			GenerateName:    base(pod.Name, wanted),
			Labels:          template.Spec.Labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		},
		Spec: template.Spec.Spec,
	}
}

// base is what names of claims begin with. Of long names each part loses its share, so that both can be told.
func base(pod, wanted string) string {
	full := pod + "-" + wanted + "-"
	if len(full) <= maxBase {
		return full
	}
	return pod[:len(pod)*maxBase/len(full)] + "-" + wanted[:len(wanted)*maxBase/len(full)]
}

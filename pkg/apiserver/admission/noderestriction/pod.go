// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apis/core/podreference"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// pod returns a pod: from the cache if that knows it, of the UID unless that is empty, on the node, which stays as it is; else as it is stored,
// for a kubelet may hear of a pod before the cache does.
func (p *Plugin) pod(ctx context.Context, namespace, name string, uid types.UID, node string) (*corev1.Pod, error) {
	pod, err := p.pods.Pods(namespace).Get(name)
	if err == nil && pod.Spec.NodeName == node && (uid == "" || pod.UID == uid) {
		return pod, nil
	}
	return p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (p *Plugin) admitPod(ctx context.Context, name string, a admission.Attributes) error {
	switch a.GetOperation() {
	case admission.Create:
		return p.admitMirrorPod(name, a)
	case admission.Delete:
		pod, err := p.pod(ctx, a.GetNamespace(), a.GetName(), "", name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != name {
			return fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", name)
		}
		return nil
	}
	return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", a.GetOperation(), name)
}

// admitMirrorPod lets a node show the pods that it runs from files. They give it no access to anything.
func (p *Plugin) admitMirrorPod(name string, a admission.Attributes) error {
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, name)
	}
	if pod.Spec.NodeName != name {
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", name)
	}
	if err := p.checkOwner(name, pod); err != nil {
		return err
	}
	switch resource, err := podreference.Resource(pod); {
	case err != nil:
		return fmt.Errorf("error checking mirror pod for API references: %w", err)
	case resource != "":
		return fmt.Errorf("node %q can not create pods that reference %s", name, resource)
	}
	return nil
}

// checkOwner wants the node itself as the one owner, so that its mirror pods go with it.
func (p *Plugin) checkOwner(name string, pod *corev1.Pod) error {
	switch len(pod.OwnerReferences) {
	case 0:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", name)
	case 1:
	default:
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", name)
	}
	owner := pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != name:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", name)
	case owner.Controller == nil || !*owner.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", name)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", name)
	}
	n, err := p.nodes.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return fmt.Errorf("error looking up node %s to verify uid: %w", name, err)
	case owner.UID != n.UID:
		return fmt.Errorf("node %s UID mismatch: expected %s got %s", name, owner.UID, n.UID)
	}
	return nil
}

func admitPodStatus(name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Update {
		return fmt.Errorf("unexpected operation %q", a.GetOperation())
	}
	old, err := object.Old[*corev1.Pod](a)
	if err != nil {
		return err
	}
	pod, err := object.New[*corev1.Pod](a)
	switch {
	case err != nil:
		return err
	case old.Spec.NodeName != name:
		return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", name)
	case !labels.Equals(old.Labels, pod.Labels):
		return fmt.Errorf("node %q cannot update labels through pod status", name)
	case !apiequality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update resource claim statues", name) // upstream's spelling
	case !apiequality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return fmt.Errorf("node %q cannot update extended resource claim status", name)
	case !apiequality.Semantic.DeepEqual(old.Status.NodeAllocatableResourceClaimStatuses, pod.Status.NodeAllocatableResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update node allocatable resource claim statuses", name)
	}
	return nil
}

func (p *Plugin) admitEviction(ctx context.Context, name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return fmt.Errorf("unexpected operation %s", a.GetOperation())
	}
	eviction, err := object.New[*policyv1.Eviction](a)
	if err != nil {
		return err
	}
	target := a.GetName()
	if target == "" {
		target = eviction.Name
	}
	if target == "" {
		return errors.New("could not determine pod from request data")
	}
	pod, err := p.pod(ctx, a.GetNamespace(), target, "", name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != name {
		return fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", name)
	}
	return nil
}

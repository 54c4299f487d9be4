// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// Fields that pods are found by in a cache with Indexes, besides ControllerField. No pass over one object may look at all pods.
const (
	// NodeField has the pods of a node.
	NodeField = "spec.nodeName"
	// ClaimField has, within a namespace, the pods with a volume of the PersistentVolumeClaim of that name.
	ClaimField = "spec.volumes.persistentVolumeClaim"
	// ResourceClaimField has, within a namespace, the pods that use the ResourceClaim of that name.
	ResourceClaimField = "status.resourceClaimStatuses"
	// ResourceClaimTemplateField has, within a namespace, the pods whose claims are made from the template of that name.
	ResourceClaimTemplateField = "spec.resourceClaims.resourceClaimTemplateName"
	// GroupField has, within a namespace, the pods of the PodGroup of that name that have not ended.
	GroupField = "spec.schedulingGroup.podGroupName"
	// DevicesField has, under its only value WithDevices, the pods that ask for ResourceClaims at all.
	DevicesField = "spec.resourceClaims"
)

const (
	// WithDevices is the value of DevicesField.
	WithDevices = "true"
	// Orphan is the value of ControllerField for those without a controller.
	Orphan = orphan
)

// Index is a field that pods are found by, and the function that has its values.
type Index struct {
	Field  string
	Values client.IndexerFunc
}

// Indexes are all that the cache of the controllers has for pods.
func Indexes() []Index {
	of := func(values func(*corev1.Pod) []string) client.IndexerFunc {
		return func(obj client.Object) []string { return values(obj.(*corev1.Pod)) }
	}
	return []Index{
		{ControllerField, ControllerOf},
		{NodeField, of(nodeOf)},
		{ClaimField, of(Claims)},
		{ResourceClaimField, of(ResourceClaims)},
		{ResourceClaimTemplateField, of(resourceClaimTemplates)},
		{DevicesField, of(devices)},
		{GroupField, of(groups)},
	}
}

// OnNode lists the pods of a node. They belong to the cache: nobody may change them.
func OnNode(ctx context.Context, reader client.Reader, node string, opts ...client.ListOption) ([]*corev1.Pod, error) {
	return by(ctx, reader, NodeField, node, opts)
}

// WithClaim lists the pods with a volume of a PersistentVolumeClaim; an ephemeral volume's claim may be another pod's of the same
// name. They belong to the cache: nobody may change them.
func WithClaim(ctx context.Context, reader client.Reader, namespace, claim string, opts ...client.ListOption) ([]*corev1.Pod, error) {
	return by(ctx, reader, ClaimField, claim, append(opts, client.InNamespace(namespace)))
}

// InGroup lists the pods of a PodGroup that have not ended. They belong to the cache: nobody may change them.
func InGroup(ctx context.Context, reader client.Reader, namespace, group string) ([]*corev1.Pod, error) {
	return by(ctx, reader, GroupField, group, []client.ListOption{client.InNamespace(namespace)})
}

func by(ctx context.Context, reader client.Reader, field, value string, opts []client.ListOption) ([]*corev1.Pod, error) {
	found, err := ownwrites.Peek[*corev1.Pod](ctx, reader, &corev1.PodList{}, append(opts, client.MatchingFields{field: value})...)
	if err != nil {
		return nil, fmt.Errorf("listing pods by %s %q: %w", field, value, err)
	}
	return found, nil
}

func nodeOf(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// ResourceClaims are the names of the ResourceClaims of a pod that are known already.
func ResourceClaims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			names = append(names, *name)
		}
	}
	return names
}

func resourceClaimTemplates(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; name != nil {
			names = append(names, *name)
		}
	}
	return names
}

// PodGroup is the name of the PodGroup of a pod, empty if it has none.
func PodGroup(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

func groups(pod *corev1.Pod) []string {
	if name := PodGroup(pod); name != "" && !IsTerminal(pod) {
		return []string{name}
	}
	return nil
}

func devices(pod *corev1.Pod) []string {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	return []string{WithDevices}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package index is by what the controllers find objects in their shared cache. Touch it when a pass over one object looks at all
// objects of another kind to find a few. What only one controller looks for is indexed in its own Setup.
package index

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

const (
	// selectorField has, within a namespace, what selects by one certain label, see selectedBy.
	selectorField = "spec.selector"
	// serviceField has, within a namespace, the EndpointSlices of the Service of that name.
	serviceField = "metadata.labels." + discoveryv1.LabelServiceName
	// attachedNodeField and attachedVolumeField have the VolumeAttachments of a node and those of a PersistentVolume.
	attachedNodeField   = "spec.nodeName"
	attachedVolumeField = "spec.source.persistentVolumeName"
)

// Index is a field that objects of a kind are found by, and the function that has its values.
type Index struct {
	Object client.Object
	Field  string
	Values client.IndexerFunc
}

// All are the indexes of the shared cache.
func All() []Index {
	var all []Index
	for _, i := range pods.Indexes() {
		all = append(all, Index{&corev1.Pod{}, i.Field, i.Values})
	}
	for _, controlled := range []client.Object{
		&appsv1.ReplicaSet{}, &corev1.ReplicationController{}, &appsv1.ControllerRevision{}, &batchv1.Job{}, &resourcev1.ResourceClaim{},
	} {
		all = append(all, Index{controlled, pods.ControllerField, pods.ControllerOf})
	}
	return append(all,
		selecting(&corev1.Service{}, func(s *corev1.Service) *metav1.LabelSelector { return plain(s.Spec.Selector) }),
		selecting(&corev1.ReplicationController{}, func(rc *corev1.ReplicationController) *metav1.LabelSelector { return plain(rc.Spec.Selector) }),
		selecting(&appsv1.ReplicaSet{}, func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector }),
		selecting(&appsv1.Deployment{}, func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }),
		selecting(&appsv1.DaemonSet{}, func(d *appsv1.DaemonSet) *metav1.LabelSelector { return d.Spec.Selector }),
		selecting(&appsv1.StatefulSet{}, func(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector }),
		selecting(&batchv1.Job{}, func(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector }),
		selecting(&policyv1.PodDisruptionBudget{}, func(b *policyv1.PodDisruptionBudget) *metav1.LabelSelector { return b.Spec.Selector }),
		Index{&discoveryv1.EndpointSlice{}, serviceField, func(obj client.Object) []string {
			if name := obj.GetLabels()[discoveryv1.LabelServiceName]; name != "" {
				return []string{name}
			}
			return nil
		}},
		Index{&storagev1.VolumeAttachment{}, attachedNodeField, func(obj client.Object) []string {
			return []string{obj.(*storagev1.VolumeAttachment).Spec.NodeName}
		}},
		Index{&storagev1.VolumeAttachment{}, attachedVolumeField, func(obj client.Object) []string {
			if name := obj.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName; name != nil {
				return []string{*name}
			}
			return nil
		}},
	)
}

// Add adds all indexes to a cache.
func Add(ctx context.Context, indexer client.FieldIndexer) error {
	for _, i := range All() {
		if err := indexer.IndexField(ctx, i.Object, i.Field, i.Values); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.Object, i.Field, err)
		}
	}
	return nil
}

// ControlledBy narrows a list down to the objects of a namespace whose controller has this UID.
func ControlledBy(namespace string, owner types.UID) client.ListOption {
	return within{namespace, pods.ControllerField, string(owner)}
}

// Orphans narrows a list down to the objects of a namespace that have no controller.
func Orphans(namespace string) client.ListOption {
	return within{namespace, pods.ControllerField, pods.Orphan}
}

// OfService narrows a list of EndpointSlices down to those of a Service.
func OfService(namespace, name string) client.ListOption {
	return within{namespace, serviceField, name}
}

// AttachedTo narrows a list of VolumeAttachments down to those of a node.
func AttachedTo(node string) client.ListOption { return within{"", attachedNodeField, node} }

// AttachmentsOf narrows a list of VolumeAttachments down to those of a PersistentVolume.
func AttachmentsOf(volume string) client.ListOption { return within{"", attachedVolumeField, volume} }

// within selects the objects of a namespace, or of all if that is empty, by a field.
type within struct{ namespace, field, value string }

// ApplyToList implements client.ListOption.
func (w within) ApplyToList(options *client.ListOptions) {
	client.InNamespace(w.namespace).ApplyToList(options)
	client.MatchingFields{w.field: w.value}.ApplyToList(options)
}

// anyLabel has the objects whose selectors name no label that they want to equal something.
const anyLabel = ""

// selecting is the index of a kind by its selectors.
func selecting[T client.Object](empty T, selectorOf func(T) *metav1.LabelSelector) Index {
	return Index{empty, selectorField, func(obj client.Object) []string { return selectedBy(selectorOf(obj.(T))) }}
}

func plain(selector map[string]string) *metav1.LabelSelector {
	if selector == nil {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: selector}
}

// selectedBy is one of the labels that a selector wants: what lacks it is not selected. So an object finds those that select it by
// looking for each of its labels, and does not have to ask all of them.
func selectedBy(selector *metav1.LabelSelector) []string {
	switch {
	case selector == nil:
		return nil
	case len(selector.MatchLabels) == 0:
		return []string{anyLabel}
	}
	key := slices.Min(slices.Collect(maps.Keys(selector.MatchLabels)))
	return []string{pair(key, selector.MatchLabels[key])}
}

func pair(key, value string) string { return key + "=" + value }

// MaySelect returns, for lists of kinds with selectors, one option for each place where those are found that may select obj: a list
// with each of them has all, and none twice.
func MaySelect(obj client.Object) []client.ListOption {
	options := []client.ListOption{within{obj.GetNamespace(), selectorField, anyLabel}}
	for key, value := range obj.GetLabels() {
		options = append(options, within{obj.GetNamespace(), selectorField, pair(key, value)})
	}
	return options
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// baseNode is what nodes are that have no template.
func baseNode(prefix string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("32Gi"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room.DeepCopy(), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func (r *run) createNodes(ctx context.Context, index int, o operation) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(createConnections)
	for i := range o.Count {
		node := baseNode(fmt.Sprintf("node-%d-", index))
		if o.NodeTemplatePath != "" {
			node = &corev1.Node{}
			if err := r.templates.render(r.path(o.NodeTemplatePath), o.TemplateParams, i, o.Count, node); err != nil {
				return err
			}
		}
		if node.Name == "" {
			node.Name = node.GenerateName + rand.String(8)
		}
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelHostname, node.Name)
		if l := o.LabelNodePrepareStrategy; l != nil {
			metav1.SetMetaDataLabel(&node.ObjectMeta, l.LabelKey, l.LabelValues[i%len(l.LabelValues)])
		}
		if l := o.UniqueNodeLabelStrategy; l != nil {
			metav1.SetMetaDataLabel(&node.ObjectMeta, l.LabelKey, node.Name)
		}
		g.Go(func() error { return r.createNode(ctx, node, o.NodeAllocatableStrategy) })
	}
	return g.Wait()
}

// createNode creates a node, and a CSINode if it has volumes of drivers.
func (r *run) createNode(ctx context.Context, node *corev1.Node, a *allocatable) error {
	if a == nil {
		_, err := r.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	}
	if node.Status.Allocatable == nil { // the API server would say so of a node without
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	for name, text := range a.NodeAllocatable {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("allocatable %s: %w", name, err)
		}
		node.Status.Allocatable[corev1.ResourceName(name)] = quantity
	}
	if _, err := r.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: strings.Join(a.MigratedPlugins, ",")},
	}}
	for driver, limit := range a.CSINodeAllocatable {
		csi.Spec.Drivers = append(csi.Spec.Drivers, storagev1.CSINodeDriver{
			Name: driver, NodeID: node.Name, Allocatable: &storagev1.VolumeNodeResources{Count: new(limit.Count)},
		})
	}
	_, err := r.client.StorageV1().CSINodes().Create(ctx, csi, metav1.CreateOptions{})
	return err
}

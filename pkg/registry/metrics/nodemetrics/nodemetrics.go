// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodemetrics tells what nodes use (kubectl top node). Touch it when metrics-server's resource nodes changes.
package nodemetrics

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes nodes of metrics.k8s.io.
var Resource = registry.Virtual{
	Kind: metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"),
	Name: "nodes",
	Build: func(c registry.Config) (rest.Storage, error) {
		return &storage{TableConvertor: registry.NewTable(columns, row), stores: c.Stores, usage: c.Usage}, nil
	},
}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
	{Name: "cpu", Type: "string", Format: "quantity"},
	{Name: "memory", Type: "string", Format: "quantity"},
	{Name: "Window", Type: "string", Format: "duration"},
}

func row(m *metricsv1beta1.NodeMetrics) []any {
	return []any{m.Name, m.Usage.Cpu().String(), m.Usage.Memory().String(), m.Window.Duration.String()}
}

// storage looks up which nodes there are, and tells what is known of them.
type storage struct {
	rest.TableConvertor
	stores *registry.Stores
	usage  registry.Usage
}

var (
	_ rest.Getter               = (*storage)(nil)
	_ rest.Lister               = (*storage)(nil)
	_ rest.Scoper               = (*storage)(nil)
	_ rest.SingularNameProvider = (*storage)(nil)
)

// New implements rest.Storage.
func (*storage) New() runtime.Object { return &metricsv1beta1.NodeMetrics{} }

// NewList implements rest.Lister.
func (*storage) NewList() runtime.Object { return &metricsv1beta1.NodeMetricsList{} }

// Destroy implements rest.Storage.
func (*storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*storage) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider. There is none, so that "node" is the core group's.
func (*storage) GetSingularName() string { return "" }

// Get implements rest.Getter.
func (s *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	nodes, err := s.stores.Get(corev1.Resource("nodes"))
	if err != nil {
		return nil, err
	}
	node, err := nodes.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name) // the store names the resource of the request
	}
	if err != nil {
		return nil, err
	}
	s.usage.Measure(ctx)
	if m, ok := s.of(node.(*corev1.Node)); ok {
		return &m, nil
	}
	return nil, apierrors.NewNotFound(metricsv1beta1.Resource("nodemetrics"), name)
}

// List implements rest.Lister.
func (s *storage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	nodes, err := s.stores.Get(corev1.Resource("nodes"))
	if err != nil {
		return nil, err
	}
	selected := &internalversion.ListOptions{ResourceVersion: "0"}
	chosen := fields.Everything()
	if options != nil {
		selected.LabelSelector = options.LabelSelector
		if options.FieldSelector != nil {
			chosen = options.FieldSelector
		}
	}
	there, err := nodes.List(ctx, selected)
	if err != nil {
		return nil, err
	}
	s.usage.Measure(ctx)
	list := &metricsv1beta1.NodeMetricsList{Items: []metricsv1beta1.NodeMetrics{}}
	for i := range there.(*corev1.NodeList).Items {
		node := &there.(*corev1.NodeList).Items[i]
		if !chosen.Matches(fields.Set{"metadata.name": node.Name}) {
			continue
		}
		if m, ok := s.of(node); ok {
			list.Items = append(list.Items, m)
		}
	}
	return list, nil
}

func (s *storage) of(node *corev1.Node) (metricsv1beta1.NodeMetrics, bool) {
	m, ok := s.usage.Node(node.Name)
	m.Labels, m.CreationTimestamp = node.Labels, metav1.Now()
	return m, ok
}

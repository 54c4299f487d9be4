// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podmetrics tells what pods use (kubectl top pod). Touch it when metrics-server's resource pods changes.
package podmetrics

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes pods of metrics.k8s.io.
var Resource = registry.Virtual{
	Kind: metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"),
	Name: "pods", Namespaced: true,
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

// row has the sums over containers.
func row(m *metricsv1beta1.PodMetrics) []any {
	sum := corev1.ResourceList{}
	for i := range m.Containers {
		for name, used := range m.Containers[i].Usage {
			all := sum[name]
			all.Add(used)
			sum[name] = all
		}
	}
	return []any{m.Name, sum.Cpu().String(), sum.Memory().String(), m.Window.Duration.String()}
}

// storage looks up which pods run, and tells what is known of them.
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
func (*storage) New() runtime.Object { return &metricsv1beta1.PodMetrics{} }

// NewList implements rest.Lister.
func (*storage) NewList() runtime.Object { return &metricsv1beta1.PodMetricsList{} }

// Destroy implements rest.Storage.
func (*storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*storage) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider. There is none, so that "pod" is the core group's.
func (*storage) GetSingularName() string { return "" }

// Get implements rest.Getter.
func (s *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	pods, err := s.stores.Get(corev1.Resource("pods"))
	if err != nil {
		return nil, err
	}
	obj, err := pods.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name) // the store names the resource of the request
	}
	if err != nil {
		return nil, err
	}
	pod := obj.(*corev1.Pod)
	if pod.Status.Phase != corev1.PodRunning {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	s.usage.Measure(ctx)
	if m, ok := s.of(pod); ok {
		return &m, nil
	}
	return nil, apierrors.NewNotFound(metricsv1beta1.Resource("podmetrics"), request.NamespaceValue(ctx)+"/"+name)
}

// List implements rest.Lister.
func (s *storage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	pods, err := s.stores.Get(corev1.Resource("pods"))
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
	there, err := pods.List(ctx, selected)
	if err != nil {
		return nil, err
	}
	s.usage.Measure(ctx)
	list := &metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{}}
	for i := range there.(*corev1.PodList).Items {
		pod := &there.(*corev1.PodList).Items[i]
		if pod.Status.Phase != corev1.PodRunning || !chosen.Matches(fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace}) {
			continue
		}
		if m, ok := s.of(pod); ok {
			list.Items = append(list.Items, m)
		}
	}
	return list, nil
}

// of is what a pod uses, by the node that it is bound to: another one cannot tell of it.
func (s *storage) of(pod *corev1.Pod) (metricsv1beta1.PodMetrics, bool) {
	m, ok := s.usage.Pod(pod.Spec.NodeName, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	m.Labels, m.CreationTimestamp = pod.Labels, metav1.Now()
	return m, ok
}

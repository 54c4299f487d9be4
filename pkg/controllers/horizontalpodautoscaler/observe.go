// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// Metrics are the three APIs that metrics come from. Each is served by whoever registers it, and may be missing or hang. Of the
// clients of the latter two each call has to end by itself (a timeout of their HTTP client): they take no context.
type Metrics struct {
	Resource resourceclient.PodMetricsesGetter
	Custom   customclient.CustomMetricsClient
	External externalclient.ExternalMetricsClient

	// ForgetVersion, if set, has Custom ask anew which version of its API is served; it is called after a failure.
	ForgetVersion func()

	resourceCircuit, customCircuit, externalCircuit circuit
}

// observe asks for the value of a metric, and then for the pods that the scale selects. Errors are in upstream's words.
func (r *Reconciler) observe(ctx context.Context, namespace string, spec *autoscalingv2.MetricSpec, selector labels.Selector) (o observation, err error) {
	switch spec.Type {
	case autoscalingv2.ResourceMetricSourceType:
		o.samples, err = r.Metrics.ofResource(ctx, namespace, selector, spec.Resource.Name, "")
	case autoscalingv2.ContainerResourceMetricSourceType:
		o.samples, err = r.Metrics.ofResource(ctx, namespace, selector, spec.ContainerResource.Name, spec.ContainerResource.Container)
	case autoscalingv2.PodsMetricSourceType:
		o.samples, err = r.Metrics.ofPods(namespace, selector, &spec.Pods.Metric)
	case autoscalingv2.ObjectMetricSourceType:
		o.values, err = r.Metrics.ofObject(namespace, &spec.Object.DescribedObject, &spec.Object.Metric)
	case autoscalingv2.ExternalMetricSourceType:
		o.values, err = r.Metrics.external(namespace, &spec.External.Metric)
	}
	if err != nil {
		return observation{}, err
	}
	o.pods, err = r.podsOf(ctx, namespace, selector)
	return o, err
}

// podsOf returns the pods that the scale selects; they belong to the cache.
func (r *Reconciler) podsOf(ctx context.Context, namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	found, err := ownwrites.Peek[*corev1.Pod](ctx, r.Client, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("unable to get pods while calculating replica count: %w", err)
	}
	return found, nil
}

func (m *Metrics) ofResource(ctx context.Context, namespace string, selector labels.Selector, resource corev1.ResourceName, container string) (samples, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var found samples
	err := m.resourceCircuit.do(func() error {
		list, err := m.Resource.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		switch {
		case err != nil:
			return fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
		case len(list.Items) == 0:
			return errors.New("no metrics returned from resource metrics API")
		}
		found = resourceSamples(list.Items, resource, container)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("unable to get metrics for resource %s: %w", resource, err)
	}
	return found, nil
}

func (m *Metrics) ofPods(namespace string, selector labels.Selector, metric *autoscalingv2.MetricIdentifier) (samples, error) {
	labelled, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return nil, err
	}
	var found samples
	err = m.askCustom(func() error {
		list, err := m.Custom.NamespacedMetrics(namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, selector, metric.Name, labelled)
		switch {
		case err != nil:
			return fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
		case len(list.Items) == 0:
			return errors.New("no metrics returned from custom metrics API")
		}
		found = customSamples(list.Items)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("unable to get metric %s: %w", metric.Name, err)
	}
	return found, nil
}

func (m *Metrics) ofObject(namespace string, ref *autoscalingv2.CrossVersionObjectReference, metric *autoscalingv2.MetricIdentifier) ([]int64, error) {
	labelled, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return nil, err
	}
	var value *customv1beta2.MetricValue
	err = m.askCustom(func() (err error) {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		if kind == (schema.GroupKind{Kind: "Namespace"}) {
			// Always the autoscaler's own, whatever name the reference has.
			value, err = m.Custom.RootScopedMetrics().GetForObject(kind, namespace, metric.Name, labelled)
		} else {
			value, err = m.Custom.NamespacedMetrics(namespace).GetForObject(kind, ref.Name, metric.Name, labelled)
		}
		if err != nil {
			return fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("unable to get metric %s on %s %s/%s: %w", metric.Name, ref.Kind, namespace, ref.Name, err)
	}
	return []int64{value.Value.MilliValue()}, nil
}

// askCustom makes a call of the custom metrics API.
func (m *Metrics) askCustom(call func() error) error {
	err := m.customCircuit.do(call)
	if err != nil && m.ForgetVersion != nil {
		m.ForgetVersion()
	}
	return err
}

func (m *Metrics) external(namespace string, metric *autoscalingv2.MetricIdentifier) ([]int64, error) {
	labelled, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return nil, err
	}
	var values []int64
	err = m.externalCircuit.do(func() error {
		list, err := m.External.NamespacedMetrics(namespace).List(metric.Name, labelled)
		switch {
		case err != nil:
			return fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
		case len(list.Items) == 0:
			return errors.New("no metrics returned from external metrics API")
		}
		for i := range list.Items {
			values = append(values, list.Items[i].Value.MilliValue())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", namespace, metric.Name, metric.Selector, err)
	}
	return values, nil
}

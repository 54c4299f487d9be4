// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"minik8s.io/minik8s/test/integration/framework"
)

// TestHorizontalPodAutoscaler scales a custom resource by a metric of external.metrics.k8s.io, which is a custom resource, too: its
// list has the form of that API's answer. Neither was there when the controller started.
func TestHorizontalPodAutoscaler(t *testing.T) {
	ns, ctx := cluster.Namespace(t), t.Context()
	client, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	scalers := cluster.Client.AutoscalingV2().HorizontalPodAutoscalers(ns)
	if _, err := scalers.Create(ctx, fleetScaler(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The conditions are looked for in each step; a change of the spec has the next look come at once.
	says := func(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason string) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("%s is %s for %s", kind, status, reason), func() error {
			h, err := scalers.Get(ctx, "fleet", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range h.Status.Conditions {
				if c.Type == kind && c.Status == status && c.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("conditions %+v", h.Status.Conditions)
		})
	}
	limit := func(maximum int32) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"maxReplicas":%d}}`, maximum)
		if _, err := scalers.Patch(ctx, "fleet", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	says(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale")

	fleets := version("v1", true)
	fleets.Schema.OpenAPIV3Schema.XPreserveUnknownFields = new(true)
	fleets.Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{
		SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: new(".status.selector"),
	}}
	fleets.Schema.OpenAPIV3Schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer"}}},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer"}, "selector": {Type: "string"}}},
	}
	define(t, "fleets", apiextensionsv1.NamespaceScoped, fleets)
	defineQueue(t)
	fleet := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "fleets"}).Namespace(ns)
	for _, made := range []struct {
		in  dynamic.ResourceInterface
		obj map[string]any
	}{
		{fleet, map[string]any{
			"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": map[string]any{"name": "fleet"},
			"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"replicas": int64(1), "selector": "app=fleet"},
		}},
		{client.Resource(schema.GroupVersionResource{Group: "external.metrics.k8s.io", Version: "v1beta1", Resource: "queue"}).Namespace(ns), map[string]any{
			"apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "ExternalMetricValue", "metadata": map[string]any{"name": "now"},
			"metricName": "queue", "value": "25", "timestamp": "2026-05-01T12:00:00Z",
		}},
	} {
		if _, err := made.in.Create(ctx, &unstructured.Unstructured{Object: made.obj}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	size := func(want int64) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("a fleet of %d", want), func() error {
			got, err := fleet.Get(ctx, "fleet", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if n, _, err := unstructured.NestedInt64(got.Object, "spec", "replicas"); n != want {
				return fmt.Errorf("it has %d (%w)", n, err)
			}
			return nil
		})
	}
	limit(6)
	size(3)
	says(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound")
	says(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale")
	limit(2)
	size(2)
	tellsOfScaling(t, ns, "New size: 3; reason: external metric queue(nil) above target")
}

// tellsOfScaling waits for an event of the autoscaler.
func tellsOfScaling(t *testing.T, ns, message string) {
	t.Helper()
	framework.Eventually(t, "the event", func() error {
		events, err := cluster.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=SuccessfulRescale,source=horizontal-pod-autoscaler"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Message == message {
				return nil
			}
		}
		return fmt.Errorf("events %+v", events.Items)
	})
}

// fleetScaler gives the fleet a member for ten in the queue.
func fleetScaler() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Fleet", Name: "fleet"},
			MinReplicas:    new(int32(1)), MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("10"))},
			}}},
		},
	}
}

// defineQueue lets the metric "queue" have values.
func defineQueue(t *testing.T) {
	t.Helper()
	client, err := apiextensions.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	value := version("v1beta1", true)
	value.Schema.OpenAPIV3Schema.XPreserveUnknownFields = new(true)
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "queue.external.metrics.k8s.io", Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for a test"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "external.metrics.k8s.io", Scope: apiextensionsv1.NamespaceScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{value},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "queue", Singular: "externalmetricvalue", Kind: "ExternalMetricValue", ListKind: "ExternalMetricValueList"},
		},
	}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.ApiextensionsV1().CustomResourceDefinitions().Delete(context.WithoutCancel(t.Context()), crd.Name, metav1.DeleteOptions{})
	})
	framework.Eventually(t, "the metric is served", func() error {
		_, err := client.Discovery().ServerResourcesForGroupVersion("external.metrics.k8s.io/v1beta1")
		return err
	})
}

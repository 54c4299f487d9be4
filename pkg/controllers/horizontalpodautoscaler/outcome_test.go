// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"errors"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestChoose(t *testing.T) {
	from := func(metric string, n int32) outcome { return outcome{proposal: &proposal{replicas: n, metric: metric}} }
	asks := func(n int32) outcome { return from("x", n) }
	broken := func(s string) outcome { return outcome{failure: &failure{reason: s, err: errors.New(s)}} }
	tests := []struct {
		name     string
		outcomes []outcome
		want     int32 // -1: nothing to go by
		failed   string
		err      string
		metric   string // "" if that of any will do
	}{
		{"the most pods", []outcome{asks(3), asks(7), asks(5)}, 7, "", "", ""},
		{"the first of several", []outcome{from("a", 3), from("b", 7), from("c", 7)}, 7, "", "", "b"},
		{"the last of several that ask for none", []outcome{from("a", 0), from("b", 0)}, 0, "", "", "b"},
		{"one failed, the others ask for more", []outcome{broken("x"), asks(7)}, 7, "x", "invalid metrics (1 invalid out of 2), first error is: x", ""},
		{"one failed, the others ask for as many", []outcome{asks(5), broken("x")}, 5, "x", "invalid metrics (1 invalid out of 2), first error is: x", ""},
		{"one failed, the others ask for less", []outcome{asks(4), broken("x")}, -1, "x", "invalid metrics (1 invalid out of 2), first error is: x", ""},
		{"all failed", []outcome{broken("x"), broken("y")}, -1, "x", "invalid metrics (2 invalid out of 2), first error is: x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chosen, failed, err := choose(5, tt.outcomes)
			got, metric, reason, text := int32(-1), "", "", ""
			if chosen != nil {
				got, metric = chosen.replicas, chosen.metric
			}
			if failed != nil {
				reason = failed.reason
			}
			if err != nil {
				text = err.Error()
			}
			if got != tt.want || reason != tt.failed || text != tt.err {
				t.Errorf("got %d, %q, %q, want %d, %q, %q", got, reason, text, tt.want, tt.failed, tt.err)
			}
			if tt.metric != "" && metric != tt.metric {
				t.Errorf("chose by %q, want %q", metric, tt.metric)
			}
		})
	}
}

// The texts are those of upstream's events and conditions, which programs compare.
func TestFailureOf(t *testing.T) {
	one, percent := resource.NewQuantity(1, resource.DecimalSI), new(int32(50))
	metric := autoscalingv2.MetricIdentifier{Name: "qps"}
	tests := []struct {
		spec                autoscalingv2.MetricSpec
		reason, cause, says string
	}{
		{autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{AverageUtilization: percent}}},
			"FailedGetResourceMetric", "failed to get cpu utilization: x", "failed to get cpu resource metric value: failed to get cpu utilization: x"},
		{autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceMemory, Target: autoscalingv2.MetricTarget{AverageValue: one}}},
			"FailedGetResourceMetric", "failed to get memory usage: x", "failed to get memory resource metric value: failed to get memory usage: x"},
		{autoscalingv2.MetricSpec{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: "main", Target: autoscalingv2.MetricTarget{AverageUtilization: percent}}},
			"FailedGetContainerResourceMetric", "failed to get cpu utilization: x", "failed to get main container metric value: failed to get cpu utilization: x"},
		{autoscalingv2.MetricSpec{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: metric}},
			"FailedGetPodsMetric", "x", "failed to get pods metric value: x"},
		{autoscalingv2.MetricSpec{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{Metric: metric, Target: autoscalingv2.MetricTarget{Type: "Value", Value: one}}},
			"FailedGetObjectMetric", "x", "failed to get object metric value: x"},
		{autoscalingv2.MetricSpec{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{Metric: metric, Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: one}}},
			"FailedGetObjectMetric", "x", "failed to get object metric value: failed to get qps object metric: x"},
		{autoscalingv2.MetricSpec{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: metric, Target: autoscalingv2.MetricTarget{Value: one}}},
			"FailedGetExternalMetric", "x", "failed to get qps external metric value: failed to get external metric qps: x"},
		{autoscalingv2.MetricSpec{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: metric, Target: autoscalingv2.MetricTarget{AverageValue: one}}},
			"FailedGetExternalMetric", "x", "failed to get qps external metric value: failed to get qps external metric: x"},
		{autoscalingv2.MetricSpec{Type: "Moon"}, "InvalidMetricSourceType", "x", "x"},
	}
	for _, tt := range tests {
		t.Run(tt.says, func(t *testing.T) {
			got := failureOf(&tt.spec, errors.New("x"))
			if got.reason != tt.reason || got.cause.Error() != tt.cause || got.err.Error() != tt.says {
				t.Errorf("got %q, %q, %q", got.reason, got.cause, got.err)
			}
		})
	}
}

func TestCourseFor(t *testing.T) {
	external := []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType}}
	zeroed := []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue}}
	tests := []struct {
		name       string
		minimum    *int32
		metrics    []autoscalingv2.MetricSpec
		conditions []autoscalingv2.HorizontalPodAutoscalerCondition
		current    int32
		do         course
		replicas   int32
		reason     string
	}{
		{name: "within bounds", current: 3, do: byMetrics},
		{name: "above", current: 9, do: toBounds, replicas: 5, reason: "Current number of replicas above Spec.MaxReplicas"},
		{name: "below", minimum: new(int32(2)), current: 1, do: toBounds, replicas: 2, reason: "Current number of replicas below Spec.MinReplicas"},
		{name: "scaled to zero by somebody", current: 0, do: off},
		{name: "scaled to zero by somebody, with a minimum of zero", minimum: new(int32(0)), metrics: external, current: 0, do: off},
		{name: "scaled to zero by this", minimum: new(int32(0)), metrics: external, conditions: zeroed, current: 0, do: byMetrics},
		{name: "scaled to zero by this, before the minimum was raised", minimum: new(int32(2)), conditions: zeroed, current: 0, do: byMetrics},
		{name: "scaled to zero by this, before the metric was removed", minimum: new(int32(0)), conditions: zeroed, current: 0, do: off},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &autoscalingv2.HorizontalPodAutoscaler{
				Spec:   autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: tt.minimum, MaxReplicas: 5, Metrics: tt.metrics},
				Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: tt.conditions},
			}
			do, replicas, reason := courseFor(h, tt.current)
			if do != tt.do || replicas != tt.replicas || reason != tt.reason {
				t.Errorf("got %v, %d, %q", do, replicas, reason)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package horizontalpodautoscaler serves HorizontalPodAutoscalers: how many pods a workload has, by metrics. Touch it when
// their rules change, or when either version, of which v2 is stored, gets a field.
package horizontalpodautoscaler

import (
	"context"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

var docs = autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()

// Resource describes horizontalpodautoscalers as v2 shows them.
var Resource = &registry.Resource[*autoscalingv2.HorizontalPodAutoscaler]{
	Kind:          autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
	Name:          "horizontalpodautoscalers",
	ShortNames:    []string{"hpa"},
	Categories:    []string{"all"},
	OtherVersions: []schema.GroupVersion{autoscalingv1.SchemeGroupVersion},
	New:           func() *autoscalingv2.HorizontalPodAutoscaler { return &autoscalingv2.HorizontalPodAutoscaler{} },
	NewList:       func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },
	Default:       setDefaults,
	Validate: func(_ context.Context, h *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
		return validate(h, leniencyOf(h, nil))
	},
	ValidateUpdate: func(_ context.Context, h, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
		return validate(h, leniencyOf(h, old))
	},
	Spec:   func(h *autoscalingv2.HorizontalPodAutoscaler) any { return h.Spec },
	Status: &registry.Status[*autoscalingv2.HorizontalPodAutoscaler]{Validate: validateStatus},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Reference", "string", docs["scaleTargetRef"]),
		registry.Column("Targets", "string", docs["metrics"]),
		registry.Column("MinPods", "string", docs["minReplicas"]),
		registry.Column("MaxPods", "string", docs["maxReplicas"]),
		registry.Column("Replicas", "string", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"]),
		registry.AgeColumn,
	},
	Row: row,
}

// defaultCPU is the use of the requested cpu, in percent, to which is scaled if nothing else is said.
const defaultCPU = 80

func cpuTarget(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}

func setDefaults(h *autoscalingv2.HorizontalPodAutoscaler) {
	dropTwins(h.Annotations)
	if h.Spec.MinReplicas == nil {
		h.Spec.MinReplicas = new(int32(1))
	}
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{cpuTarget(defaultCPU)}
	}
	if b := h.Spec.Behavior; b != nil {
		b.ScaleUp = withDefaults(b.ScaleUp, autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)),
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			},
		})
		// How long to wait before scaling down is the controller's default.
		b.ScaleDown = withDefaults(b.ScaleDown, autoscalingv2.HPAScalingRules{
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}},
		})
	}
}

// withDefaults completes the rules for one direction.
func withDefaults(rules *autoscalingv2.HPAScalingRules, defaults autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if rules == nil {
		rules = &autoscalingv2.HPAScalingRules{}
	}
	if rules.StabilizationWindowSeconds == nil {
		rules.StabilizationWindowSeconds = defaults.StabilizationWindowSeconds
	}
	if rules.SelectPolicy == nil {
		rules.SelectPolicy = new(autoscalingv2.MaxChangePolicySelect)
	}
	if rules.Policies == nil {
		rules.Policies = defaults.Policies
	}
	return rules
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"encoding/json"
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apiserver/guard"
	"minik8s.io/minik8s/pkg/registry"
)

// V1 describes horizontalpodautoscalers as v1 shows them: one target for cpu in the spec, everything else as JSON in
// annotations, the twins of the fields that v2 has.
var V1 registry.Descriptor = v1{}

type v1 struct{}

// Info implements registry.Descriptor.
func (v1) Info() registry.Info {
	info := Resource.Info()
	info.Kind.Version = autoscalingv1.SchemeGroupVersion.Version
	return info
}

// AddToScheme implements registry.Descriptor.
func (d v1) AddToScheme(scheme *runtime.Scheme) error {
	setDefault := func(h *autoscalingv1.HorizontalPodAutoscaler) {
		if h.Spec.MinReplicas == nil {
			h.Spec.MinReplicas = ptr.To[int32](1)
		}
	}
	scheme.AddTypeDefaultingFunc(&autoscalingv1.HorizontalPodAutoscaler{}, func(obj any) { setDefault(obj.(*autoscalingv1.HorizontalPodAutoscaler)) })
	scheme.AddTypeDefaultingFunc(&autoscalingv1.HorizontalPodAutoscalerList{}, func(list any) {
		items := list.(*autoscalingv1.HorizontalPodAutoscalerList).Items
		for i := range items {
			setDefault(&items[i])
		}
	})
	return nil
}

// Storage implements registry.Descriptor: it is that of v2.
func (v1) Storage(c registry.Config) (map[string]rest.Storage, error) { return Resource.Storage(c) }

// AddToScheme registers the types of both versions and the conversions between them.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := autoscalingv2.AddToScheme(scheme); err != nil {
		return err
	}
	if err := autoscalingv1.AddToScheme(scheme); err != nil {
		return err
	}
	for _, err := range []error{
		scheme.AddConversionFunc((*autoscalingv1.HorizontalPodAutoscaler)(nil), (*autoscalingv2.HorizontalPodAutoscaler)(nil), func(in, out any, _ conversion.Scope) error {
			fromV1(in.(*autoscalingv1.HorizontalPodAutoscaler), out.(*autoscalingv2.HorizontalPodAutoscaler))
			return nil
		}),
		scheme.AddConversionFunc((*autoscalingv2.HorizontalPodAutoscaler)(nil), (*autoscalingv1.HorizontalPodAutoscaler)(nil), func(in, out any, _ conversion.Scope) error {
			return toV1(in.(*autoscalingv2.HorizontalPodAutoscaler), out.(*autoscalingv1.HorizontalPodAutoscaler))
		}),
		scheme.AddConversionFunc((*autoscalingv1.HorizontalPodAutoscalerList)(nil), (*autoscalingv2.HorizontalPodAutoscalerList)(nil), func(in, out any, _ conversion.Scope) error {
			from, to := in.(*autoscalingv1.HorizontalPodAutoscalerList), out.(*autoscalingv2.HorizontalPodAutoscalerList)
			to.ListMeta, to.Items = from.ListMeta, make([]autoscalingv2.HorizontalPodAutoscaler, len(from.Items))
			for i := range from.Items {
				fromV1(&from.Items[i], &to.Items[i])
			}
			return nil
		}),
		scheme.AddConversionFunc((*autoscalingv2.HorizontalPodAutoscalerList)(nil), (*autoscalingv1.HorizontalPodAutoscalerList)(nil), func(in, out any, _ conversion.Scope) error {
			from, to := in.(*autoscalingv2.HorizontalPodAutoscalerList), out.(*autoscalingv1.HorizontalPodAutoscalerList)
			to.ListMeta, to.Items = from.ListMeta, make([]autoscalingv1.HorizontalPodAutoscaler, len(from.Items))
			for i := range from.Items {
				if err := toV1(&from.Items[i], &to.Items[i]); err != nil {
					return err
				}
			}
			return nil
		}),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// The annotations in which v1 keeps what it has no field for.
const (
	metricsTwin        = "autoscaling.alpha.kubernetes.io/metrics"
	behaviorTwin       = "autoscaling.alpha.kubernetes.io/behavior"
	currentMetricsTwin = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsTwin     = "autoscaling.alpha.kubernetes.io/conditions"
)

// dropTwins removes the annotations, which must not be kept beside the fields. Two more were in use for a short time.
func dropTwins(annotations map[string]string) {
	for _, twin := range []string{
		metricsTwin, behaviorTwin, currentMetricsTwin, conditionsTwin,
		"autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
	} {
		delete(annotations, twin)
	}
}

// isCPU tells whether the metric is the one that v1 has a field for.
func isCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

// toV1 copies deeply, since the two objects live on apart.
func toV1(in *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) error {
	in = in.DeepCopy()
	*out = autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	if i := slices.IndexFunc(in.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool { return isCPU(&m) }); i >= 0 {
		out.Spec.TargetCPUUtilizationPercentage = in.Spec.Metrics[i].Resource.Target.AverageUtilization
	}
	for _, m := range in.Status.CurrentMetrics {
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
	}
	return writeTwins(in, out)
}

func writeTwins(in *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) error {
	dropTwins(out.Annotations)
	var metrics []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		if m := &in.Spec.Metrics[i]; !isCPU(m) {
			metrics = append(metrics, specToV1(m))
		}
	}
	var current []autoscalingv1.MetricStatus
	for i := range in.Status.CurrentMetrics {
		current = append(current, statusToV1(&in.Status.CurrentMetrics[i]))
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	for _, twin := range []struct {
		annotation string
		value      any
		present    bool
	}{
		{metricsTwin, metrics, len(metrics) > 0},
		{currentMetricsTwin, current, len(current) > 0},
		{behaviorTwin, behaviorToV1(in.Spec.Behavior), in.Spec.Behavior != nil},
		{conditionsTwin, conditions, len(conditions) > 0},
	} {
		if !twin.present {
			continue
		}
		text, err := json.Marshal(twin.value)
		if err != nil {
			return fmt.Errorf("writing annotation %s: %w", twin.annotation, err)
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[twin.annotation] = string(text)
	}
	return nil
}

// fromV1 copies deeply, since the two objects live on apart. An annotation that cannot be read is dropped.
func fromV1(in *autoscalingv1.HorizontalPodAutoscaler, out *autoscalingv2.HorizontalPodAutoscaler) {
	in = in.DeepCopy()
	*out = autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	var metrics []autoscalingv1.MetricSpec
	readTwin(in.Annotations, metricsTwin, &metrics)
	for i := range metrics {
		out.Spec.Metrics = append(out.Spec.Metrics, specFromV1(&metrics[i]))
	}
	if percent := in.Spec.TargetCPUUtilizationPercentage; percent != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuTarget(*percent))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuTarget(defaultCPU)}
	}
	var b behavior
	if readTwin(in.Annotations, behaviorTwin, &b) && b != (behavior{}) {
		out.Spec.Behavior = behaviorFromV1(b)
	}
	var current []autoscalingv1.MetricStatus
	if readTwin(in.Annotations, currentMetricsTwin, &current) {
		out.Status.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(current))
		for i := range current {
			out.Status.CurrentMetrics[i] = statusFromV1(&current[i])
		}
	} else if percent := in.Status.CurrentCPUUtilizationPercentage; percent != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type:     autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent}},
		}}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	readTwin(in.Annotations, conditionsTwin, &conditions)
	for _, c := range conditions {
		out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	dropTwins(out.Annotations)
}

// readTwin decodes an annotation, and tells whether it is there and can be read, at a reasonable price.
func readTwin(annotations map[string]string, key string, into any) bool {
	text, ok := annotations[key]
	return ok && guard.Embedded(text) == nil && json.Unmarshal([]byte(text), into) == nil
}

// behavior is how the annotation has it: the names of the fields are those that Go has for them.
type behavior struct{ ScaleUp, ScaleDown *rules }

type rules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []policy
	Tolerance                  *resource.Quantity
}

type policy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func behaviorToV1(b *autoscalingv2.HorizontalPodAutoscalerBehavior) behavior {
	convert := func(r *autoscalingv2.HPAScalingRules) *rules {
		if r == nil {
			return nil
		}
		out := &rules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
		for _, p := range r.Policies {
			out.Policies = append(out.Policies, policy(p))
		}
		return out
	}
	if b == nil {
		return behavior{}
	}
	return behavior{ScaleUp: convert(b.ScaleUp), ScaleDown: convert(b.ScaleDown)}
}

func behaviorFromV1(b behavior) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	convert := func(r *rules) *autoscalingv2.HPAScalingRules {
		if r == nil {
			return nil
		}
		out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
		for _, p := range r.Policies {
			out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
		}
		return out
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: convert(b.ScaleUp), ScaleDown: convert(b.ScaleDown)}
}

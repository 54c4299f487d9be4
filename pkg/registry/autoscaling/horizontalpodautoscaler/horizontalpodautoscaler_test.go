// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applyv1 "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	applyv2 "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/autoscaling"
	"minik8s.io/minik8s/pkg/registry/autoscaling/horizontalpodautoscaler"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type hpa = autoscalingv2.HorizontalPodAutoscaler

func valid() *hpa {
	return &hpa{
		ObjectMeta: metav1.ObjectMeta{Name: "h"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
			MaxReplicas:    3,
		},
	}
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

var (
	external = autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity("30")},
	}}
	object = autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "s"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "requests"},
		Target:          autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: quantity("2k")},
	}}
	pods = autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "packets"},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity("1k")},
	}}
	container = autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
		Name: corev1.ResourceMemory, Container: "c",
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity("1Gi")},
	}}
	cpu = autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name:   corev1.ResourceCPU,
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)},
	}}
)

func TestResource(t *testing.T) {
	metric := func(mutate func(*autoscalingv2.MetricSpec), m autoscalingv2.MetricSpec) func(*hpa) {
		return func(h *hpa) {
			h.Spec.Metrics = []autoscalingv2.MetricSpec{*m.DeepCopy()}
			mutate(&h.Spec.Metrics[0])
		}
	}
	up := func(r autoscalingv2.HPAScalingRules) func(*hpa) {
		return func(h *hpa) { h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &r} }
	}
	group := autoscaling.Group()
	registrytest.Run(t, horizontalpodautoscaler.Resource, registrytest.Case[*hpa]{
		AddToScheme:  horizontalpodautoscaler.AddToScheme,
		Group:        &group,
		Valid:        valid,
		Update:       func(h *hpa) { h.Spec.MaxReplicas = 5 },
		StatusUpdate: func(h *hpa) { h.Status.CurrentReplicas = 2 },
		Invalid: []registrytest.Invalid[*hpa]{
			{Name: "no maximum", Mutate: func(h *hpa) { h.Spec.MaxReplicas = 0 }, Field: "spec.maxReplicas"},
			{Name: "minimum above maximum", Mutate: func(h *hpa) { h.Spec.MinReplicas = ptr.To[int32](4) }, Field: "spec.maxReplicas"},
			{Name: "negative", Mutate: func(h *hpa) { h.Spec.MinReplicas = ptr.To[int32](-1) }, Field: "spec.minReplicas"},
			{Name: "zero by cpu", Mutate: func(h *hpa) { h.Spec.MinReplicas = ptr.To[int32](0) }, Field: "spec.metrics"},
			{Name: "nothing to scale", Mutate: func(h *hpa) { h.Spec.ScaleTargetRef.Name = "" }, Field: "spec.scaleTargetRef.name"},
			{Name: "kind", Mutate: func(h *hpa) { h.Spec.ScaleTargetRef.Kind = "a/b" }, Field: "spec.scaleTargetRef.kind"},
			{Name: "no group", Mutate: func(h *hpa) { h.Spec.ScaleTargetRef.APIVersion = "v1" }, Field: "spec.scaleTargetRef.apiVersion"},
			{Name: "metric type", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.Type = "x" }, pods), Field: "spec.metrics[0].type"},
			{Name: "no source", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.Pods = nil }, pods), Field: "spec.metrics[0].pods"},
			{Name: "two sources", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.Object = object.Object }, pods), Field: "spec.metrics[0].object"},
			{Name: "no target", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.External.Target.AverageValue = nil }, external), Field: "spec.metrics[0].external.target.averageValue"},
			{Name: "two targets", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.Resource.Target.AverageValue = quantity("1") }, cpu), Field: "spec.metrics[0].resource.target.averageValue"},
			{Name: "target of zero", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.Object.Target.Value = quantity("0") }, object), Field: "spec.metrics[0].object.target.value"},
			{Name: "metric name", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.Pods.Metric.Name = "a/b" }, pods), Field: "spec.metrics[0].pods.metric.name"},
			{Name: "container", Mutate: metric(func(m *autoscalingv2.MetricSpec) { m.ContainerResource.Container = "" }, container), Field: "spec.metrics[0].containerResource.container"},
			{Name: "window", Mutate: up(autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](3601)}), Field: "spec.behavior.scaleUp.stabilizationWindowSeconds"},
			{Name: "select policy", Mutate: up(autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.ScalingPolicySelect("x"))}), Field: "spec.behavior.scaleUp.selectPolicy"},
			{Name: "policy", Mutate: up(autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 1, PeriodSeconds: 1801}}}), Field: "spec.behavior.scaleUp.policies[0].periodSeconds"},
			{Name: "tolerance", Mutate: up(autoscalingv2.HPAScalingRules{Tolerance: quantity("-1")}), Field: "spec.behavior.scaleUp.tolerance"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*hpa]{
			{Name: "no group", Mutate: func(h *hpa) { h.Spec.ScaleTargetRef.APIVersion = "" }, Field: "spec.scaleTargetRef.apiVersion"},
		},
		Row: []any{"h", "Deployment/d", "cpu: <unknown>/80%", "1", int64(3), int64(0)},
	})
}

func TestOldReference(t *testing.T) {
	old := valid()
	old.Spec.ScaleTargetRef.APIVersion = "a/b/c"
	old.Spec.Metrics = []autoscalingv2.MetricSpec{*object.DeepCopy()}
	old.Spec.Metrics[0].Object.DescribedObject.APIVersion = "a/b/c"
	now := old.DeepCopy()
	now.Spec.MaxReplicas = 7
	if errs := horizontalpodautoscaler.Resource.ValidateUpdate(t.Context(), now, old); len(errs) > 0 {
		t.Errorf("an update that keeps versions which cannot be read is refused: %v", errs)
	}
}

func TestTargets(t *testing.T) {
	h := valid()
	h.Spec.Metrics = []autoscalingv2.MetricSpec{external, object, pods}
	h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
		Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricStatus{Current: autoscalingv2.MetricValueStatus{AverageValue: quantity("7")}},
	}}
	if got, want := horizontalpodautoscaler.Resource.Row(h)[2], "7/30 (avg), <unknown>/2k + 1 more..."; got != want {
		t.Errorf("targets are %q, want %q", got, want)
	}
}

// TestRoundTrip converts to v1 and back.
func TestRoundTrip(t *testing.T) {
	scheme := registry.NewScheme([]registry.Group{autoscaling.Group()})
	rich := valid()
	rich.Annotations = map[string]string{"mine": "stays"}
	rich.Spec.MinReplicas = ptr.To[int32](2)
	// The target that v1 has a field for always comes last.
	rich.Spec.Metrics = []autoscalingv2.MetricSpec{external, object, pods, container, cpu}
	rich.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
		SelectPolicy: new(autoscalingv2.DisabledPolicySelect), Tolerance: quantity("0.1"),
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 2, PeriodSeconds: 60}},
	}}
	rich.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: ptr.To[int64](4), CurrentReplicas: 2, DesiredReplicas: 3,
		CurrentMetrics: []autoscalingv2.MetricStatus{
			{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: ptr.To[int32](40), AverageValue: quantity("20m")},
			}},
			{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricStatus{
				DescribedObject: object.Object.DescribedObject, Metric: object.Object.Metric, Current: autoscalingv2.MetricValueStatus{Value: quantity("1k")},
			}},
		},
		Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "R"}},
	}
	old := &autoscalingv1.HorizontalPodAutoscaler{}
	if err := scheme.Convert(rich, old, nil); err != nil {
		t.Fatal(err)
	}
	if got := ptr.Deref(old.Spec.TargetCPUUtilizationPercentage, 0); got != 50 {
		t.Errorf("cpu target in v1 is %d, want 50", got)
	}
	if got := ptr.Deref(old.Status.CurrentCPUUtilizationPercentage, 0); got != 40 {
		t.Errorf("cpu use in v1 is %d, want 40", got)
	}
	wantBehavior := `{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled",` +
		`"Policies":[{"Type":"Pods","Value":2,"PeriodSeconds":60}],"Tolerance":"100m"}}`
	if got := old.Annotations["autoscaling.alpha.kubernetes.io/behavior"]; got != wantBehavior {
		t.Errorf("behavior in v1 is\n%s, want\n%s", got, wantBehavior)
	}
	if len(old.Annotations) != 5 {
		t.Errorf("annotations in v1 are %v", old.Annotations)
	}
	back := &hpa{}
	if err := scheme.Convert(old, back, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rich, back); diff != "" {
		t.Errorf("there and back (-before +after):\n%s", diff)
	}
}

func TestFromV1(t *testing.T) {
	scheme := registry.NewScheme([]registry.Group{autoscaling.Group()})
	for _, tc := range []struct {
		name string
		in   autoscalingv1.HorizontalPodAutoscaler
		want autoscalingv2.HorizontalPodAutoscalerSpec
	}{
		{name: "nothing", want: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
			},
		}}}},
		{name: "unreadable", in: autoscalingv1.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"autoscaling.alpha.kubernetes.io/metrics": "[", "autoscaling.alpha.kubernetes.io/behavior": "{}",
			}},
			Spec: autoscalingv1.HorizontalPodAutoscalerSpec{TargetCPUUtilizationPercentage: ptr.To[int32](50)},
		}, want: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{cpu}}},
		{name: "too expensive to read", in: autoscalingv1.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"autoscaling.alpha.kubernetes.io/metrics":  `[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1e-9999"}}]`,
				"autoscaling.alpha.kubernetes.io/behavior": `{"ScaleUp":{"TOLERANCE":1e-9999}}`,
			}},
			Spec: autoscalingv1.HorizontalPodAutoscalerSpec{TargetCPUUtilizationPercentage: ptr.To[int32](50)},
		}, want: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{cpu}}},
		{name: "average of an object", in: autoscalingv1.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"autoscaling.alpha.kubernetes.io/metrics": `[{"type":"Object","object":{"target":{"kind":"S","name":"s"},"metricName":"m","targetValue":"0","averageValue":"5"}}]`,
			}},
		}, want: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
				DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "S", Name: "s"},
				Metric:          autoscalingv2.MetricIdentifier{Name: "m"},
				Target:          autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity("5")},
			},
		}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := &hpa{}
			if err := scheme.Convert(&tc.in, out, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if len(out.Annotations) > 0 {
				t.Errorf("annotations are left: %v", out.Annotations)
			}
		})
	}
}

// TestBothVersions uses one object through both versions at once.
func TestBothVersions(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, autoscaling.Group()))
	older, newer := client.AutoscalingV1().HorizontalPodAutoscalers("default"), client.AutoscalingV2().HorizontalPodAutoscalers("default")
	ctx := t.Context()
	events, err := newer.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()

	ref := applyv1.CrossVersionObjectReference().WithAPIVersion("apps/v1").WithKind("Deployment").WithName("d")
	applied := applyv1.HorizontalPodAutoscaler("h", "default").WithSpec(
		applyv1.HorizontalPodAutoscalerSpec().WithScaleTargetRef(ref).WithMaxReplicas(4).WithTargetCPUUtilizationPercentage(50))
	made, err := older.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if made.Kind != "" && made.APIVersion != "autoscaling/v1" || made.Generation != 1 {
		t.Errorf("made %s of generation %d", made.APIVersion, made.Generation)
	}
	ev := <-events.ResultChan()
	if seen, ok := ev.Object.(*hpa); ev.Type != watch.Added || !ok || len(seen.Spec.Metrics) != 1 || *seen.Spec.Metrics[0].Resource.Target.AverageUtilization != 50 {
		t.Errorf("watched %s %+v", ev.Type, ev.Object)
	}
	_, err = newer.Apply(ctx, applyv2.HorizontalPodAutoscaler("h", "default").WithSpec(applyv2.HorizontalPodAutoscalerSpec().WithMaxReplicas(9)), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) {
		t.Errorf("applying what another manager has in the other version: %v, want conflict", err)
	}
	behavior := []byte(`{"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}}}}`)
	if _, err := newer.Patch(ctx, "h", types.MergePatchType, behavior, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := older.Get(ctx, "h", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Annotations["autoscaling.alpha.kubernetes.io/behavior"] == "" {
		t.Errorf("v1 does not show the behavior: %v", got.Annotations)
	}
	got.Spec.MaxReplicas = 6
	if _, err := older.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got.Status.CurrentReplicas, got.ResourceVersion = 2, ""
	if _, err := older.UpdateStatus(ctx, got, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	now, err := newer.Get(ctx, "h", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := now.Spec.Behavior
	if b == nil || *b.ScaleDown.SelectPolicy != autoscalingv2.DisabledPolicySelect || now.Spec.MaxReplicas != 6 || now.Status.CurrentReplicas != 2 {
		t.Errorf("after writes in v1, v2 has %+v, %+v", now.Spec, now.Status)
	}
	if len(now.Annotations) > 0 {
		t.Errorf("v2 has annotations of v1: %v", now.Annotations)
	}
	list, err := older.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=h"})
	if err != nil || len(list.Items) != 1 || *list.Items[0].Spec.TargetCPUUtilizationPercentage != 50 {
		t.Errorf("list in v1 is %+v, %v", list, err)
	}
}

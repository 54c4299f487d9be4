// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/registry/apps/daemonset"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

// TestTemplateGeneration counts the templates in an annotation that clients cannot write.
func TestTemplateGeneration(t *testing.T) {
	ctx := t.Context()
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "-3"}}}
	daemonset.Resource.Default(d)
	daemonset.Resource.PrepareForCreate(ctx, d)
	step := func(change func(*appsv1.DaemonSet), want string) {
		t.Helper()
		now := d.DeepCopy()
		change(now)
		daemonset.Resource.Default(now)
		daemonset.Resource.PrepareForUpdate(ctx, now, d)
		if got := now.Annotations[appsv1.DeprecatedTemplateGeneration]; got != want {
			t.Errorf("template generation is %s, want %s", got, want)
		}
		d = now
	}
	step(func(d *appsv1.DaemonSet) { d.Annotations = nil }, "1")
	step(func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = 7 }, "1")
	step(func(d *appsv1.DaemonSet) { d.Annotations[appsv1.DeprecatedTemplateGeneration] = "9" }, "1")
	step(func(d *appsv1.DaemonSet) { d.Spec.Template.Labels = map[string]string{"a": "b"} }, "2")
}

func TestResource(t *testing.T) {
	rolling := func(unavailable, surge int32) func(*appsv1.DaemonSet) {
		return func(d *appsv1.DaemonSet) {
			d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{
				MaxUnavailable: new(intstr.FromInt32(unavailable)), MaxSurge: new(intstr.FromInt32(surge)),
			}
		}
	}
	registrytest.Run(t, daemonset.Resource, registrytest.Case[*appsv1.DaemonSet]{
		AddToScheme: appsv1.AddToScheme,
		Valid: func() *appsv1.DaemonSet {
			return &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Name: "d"},
				Spec: appsv1.DaemonSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
					},
				},
			}
		},
		Update:       func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = 3 },
		StatusUpdate: func(d *appsv1.DaemonSet) { d.Status.NumberReady = 1 },
		Invalid: []registrytest.Invalid[*appsv1.DaemonSet]{
			{Name: "no selector", Mutate: func(d *appsv1.DaemonSet) { d.Spec.Selector = nil }, Field: "spec.template.metadata.labels"},
			{Name: "other labels", Mutate: func(d *appsv1.DaemonSet) { d.Spec.Template.Labels["app"] = "y" }, Field: "spec.template.metadata.labels"},
			{Name: "strategy", Mutate: func(d *appsv1.DaemonSet) { d.Spec.UpdateStrategy.Type = "x" }, Field: "spec.updateStrategy"},
			{Name: "nothing may move", Mutate: rolling(0, 0), Field: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
			{Name: "both ways", Mutate: rolling(1, 1), Field: "spec.updateStrategy.rollingUpdate.maxSurge"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*appsv1.DaemonSet]{
			{Name: "selector", Mutate: func(d *appsv1.DaemonSet) {
				d.Spec.Selector.MatchLabels["b"] = "y"
				d.Spec.Template.Labels["b"] = "y"
			}, Field: "spec.selector"},
		},
		Row: []any{"d", int64(0), int64(0), int64(0), int64(0), int64(0), "<none>"},
	})
}

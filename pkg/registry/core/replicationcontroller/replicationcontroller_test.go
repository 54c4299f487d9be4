// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicationcontroller_test

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry/core/replicationcontroller"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, replicationcontroller.Resource, registrytest.Case[*corev1.ReplicationController]{
		AddToScheme: func(scheme *runtime.Scheme) error {
			internal := autoscalingv1.SchemeGroupVersion
			internal.Version = runtime.APIVersionInternal
			scheme.AddKnownTypes(internal, &autoscalingv1.Scale{})
			if err := autoscalingv1.AddToScheme(scheme); err != nil {
				return err
			}
			return corev1.AddToScheme(scheme)
		},
		Valid: func() *corev1.ReplicationController {
			return &corev1.ReplicationController{
				ObjectMeta: metav1.ObjectMeta{Name: "r"},
				Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				}},
			}
		},
		Update:       func(r *corev1.ReplicationController) { r.Spec.Replicas = new(int32(3)) },
		StatusUpdate: func(r *corev1.ReplicationController) { r.Status.Replicas = 1 },
		LongDelete:   true, // orphaning is done by the garbage collector
		Invalid: []registrytest.Invalid[*corev1.ReplicationController]{
			{Name: "no template", Mutate: func(r *corev1.ReplicationController) { r.Spec.Template = nil }, Field: "spec.template"},
			{Name: "no labels", Mutate: func(r *corev1.ReplicationController) { r.Spec.Template.Labels = nil }, Field: "spec.selector"},
			{Name: "other labels", Mutate: func(r *corev1.ReplicationController) { r.Spec.Selector = map[string]string{"app": "y"} }, Field: "spec.template.metadata.labels"},
		},
		Row: []any{"r", int64(1), int64(0), int64(0)},
	})
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, podtemplate.Resource, registrytest.Case[*corev1.PodTemplate]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.PodTemplate {
			return &corev1.PodTemplate{
				ObjectMeta: metav1.ObjectMeta{Name: "t"},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"b": "2", "a": "1"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}, {Name: "d", Image: "j"}}},
				},
			}
		},
		Update: func(p *corev1.PodTemplate) { p.Template.Spec.Containers[0].Image = "other" },
		Invalid: []registrytest.Invalid[*corev1.PodTemplate]{
			{Name: "no containers", Mutate: func(p *corev1.PodTemplate) { p.Template.Spec.Containers = nil }, Field: "template.spec.containers"},
			{Name: "bad label", Mutate: func(p *corev1.PodTemplate) { p.Template.Labels["a b"] = "" }, Field: "template.labels"},
			{Name: "ephemeral containers", Mutate: func(p *corev1.PodTemplate) {
				p.Template.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
			}, Field: "template.spec.ephemeralContainers"},
		},
		Row: []any{"t", "c,d", "i,j", "a=1,b=2"},
	})
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func template(mutate func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	mutate(t)
	SetDefaults(t)
	return t
}

func TestValidate(t *testing.T) {
	runtime := corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	tests := []struct {
		name   string
		mutate func(*corev1.PodTemplateSpec)
		want   []string // fields of errors
	}{
		{name: "valid", mutate: func(*corev1.PodTemplateSpec) {}},
		{name: "label", mutate: func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"a b": ""} }, want: []string{"template.labels"}},
		{name: "mirror pod without node", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, want: []string{"template.annotations[kubernetes.io/config.mirror]"}},
		{name: "deletion cost", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.PodDeletionCost: "+1"}
		}, want: []string{"template.annotations[controller.kubernetes.io/pod-deletion-cost]"}},
		{name: "negative deletion cost", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.PodDeletionCost: "-10"}
		}},
		{name: "profile of no container", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "x": "runtime/default"}
		}, want: []string{"template.annotations[container.apparmor.security.beta.kubernetes.io/x]"}},
		{name: "profiles differ", mutate: func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{corev1.SeccompPodAnnotationKey: "unconfined"}
			t.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &runtime}
		}, want: []string{"template.spec.securityContext.seccompProfile.type"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range Validate(template(tc.mutate), field.NewPath("template")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	negative := int64(-1)
	got := Warnings(&metav1.ObjectMeta{}, &corev1.PodSpec{
		NodeSelector:                  map[string]string{"beta.kubernetes.io/os": "linux"},
		TerminationGracePeriodSeconds: &negative,
		ImagePullSecrets:              []corev1.LocalObjectReference{{}},
		Containers: []corev1.Container{{
			Env:   []corev1.EnvVar{{Name: "A"}, {Name: "A"}},
			Ports: []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 80}},
		}},
	}, nil)
	want := []string{
		`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
		`spec.imagePullSecrets[0]: invalid empty name ""`,
		`spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`,
		`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`,
		`spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package alwayspullimages

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func pod(image string) *corev1.Pod {
	c := corev1.Container{Name: "c", Image: image, ImagePullPolicy: corev1.PullNever}
	return &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{c}, Containers: []corev1.Container{c},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(c)}},
		Volumes:             []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: corev1.PullNever}}}},
	}}
}

func TestAdmit(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    admissiontest.Request
		want corev1.PullPolicy
	}{
		{"new pod", admissiontest.Request{Object: pod("a")}, corev1.PullAlways},
		{"new image", admissiontest.Request{Operation: admission.Update, Object: pod("b"), Old: pod("a")}, corev1.PullAlways},
		{"same image", admissiontest.Request{Operation: admission.Update, Object: pod("a"), Old: pod("a")}, corev1.PullNever},
		{"new ephemeral container", admissiontest.Request{Operation: admission.Update, Subresource: "ephemeralcontainers", Object: pod("b"), Old: pod("a")}, corev1.PullAlways},
		{"status", admissiontest.Request{Operation: admission.Update, Subresource: "status", Object: pod("b"), Old: pod("a")}, corev1.PullNever},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.Resource = "pods"
			if err := admissiontest.Run(New(), tc.r.Attributes()); err != nil {
				t.Fatal(err)
			}
			visit(&tc.r.Object.(*corev1.Pod).Spec, func(p *corev1.PullPolicy, path *field.Path) {
				if *p != tc.want {
					t.Errorf("%s = %s, want %s", path, *p, tc.want)
				}
			})
		})
	}
}

func TestValidateSeesLaterChanges(t *testing.T) {
	err := New().(admission.ValidationInterface).Validate(context.Background(), admissiontest.Request{Resource: "pods", Object: pod("a")}.Attributes(), nil)
	if err == nil {
		t.Error("a pod that does not always pull passes")
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package privileged

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	with := func(privileged *bool) *corev1.SecurityContext { return &corev1.SecurityContext{Privileged: privileged} }
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{{SecurityContext: with(new(false))}},
		Containers:     []corev1.Container{{}, {SecurityContext: with(new(true))}},
	}
	template := corev1.PodTemplateSpec{Spec: spec}
	for _, tc := range []struct {
		name, subresource string
		resource          schema.GroupVersionResource
		kind              schema.GroupVersionKind
		object            runtime.Object
		want              []string
	}{
		{"pod", "", corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{Spec: spec}, []string{"spec.containers[1].securityContext.privileged"}},
		{"pod's status", "status", corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{Spec: spec}, nil},
		{"deployment", "", appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithKind("Deployment"),
			&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}}, []string{"spec.template.spec.containers[1].securityContext.privileged"}},
		{"cron job", "", batchv1.SchemeGroupVersion.WithResource("cronjobs"), batchv1.SchemeGroupVersion.WithKind("CronJob"),
			&batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}},
			[]string{"spec.jobTemplate.spec.template.spec.containers[1].securityContext.privileged"}},
		{"unprivileged", "", corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}, nil},
		{"no pods inside", "", corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithKind("Secret"), &corev1.Secret{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := admission.NewAttributesRecord(tc.object, nil, tc.kind, "ns", "x", tc.resource, tc.subresource, admission.Create, &metav1.CreateOptions{}, false, nil)
			err := New().(admission.ValidationInterface).Validate(t.Context(), a, nil)
			var got []string
			if err != nil {
				status, ok := err.(apierrors.APIStatus)
				if !ok || !apierrors.IsInvalid(err) {
					t.Fatalf("got %v, want an Invalid", err)
				}
				for _, c := range status.Status().Details.Causes {
					got = append(got, c.Field)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeclass

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestPods(t *testing.T) {
	cpu := func(q string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(q)}
	}
	plain := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "h"}
	full := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "full"}, Handler: "h",
		Overhead: &nodev1.Overhead{PodFixed: cpu("10m")},
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"a": "b"},
			Tolerations:  []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
		},
	}
	named := func(name string, spec corev1.PodSpec) corev1.PodSpec {
		spec.RuntimeClassName = &name
		return spec
	}
	narrowed := corev1.PodSpec{
		Overhead: cpu("10m"), NodeSelector: map[string]string{"a": "b"},
		Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
	}
	for _, tc := range []struct {
		name       string
		spec, want corev1.PodSpec
		err        string
	}{
		{name: "no class"},
		{name: "unknown", spec: named("x", corev1.PodSpec{}), err: `pod rejected: RuntimeClass "x" not found`},
		{name: "plain", spec: named("plain", corev1.PodSpec{}), want: named("plain", corev1.PodSpec{})},
		{name: "full", spec: named("full", corev1.PodSpec{}), want: named("full", narrowed)},
		{name: "again", spec: named("full", *narrowed.DeepCopy()), want: named("full", narrowed)},
		{name: "own selector", spec: named("full", corev1.PodSpec{NodeSelector: map[string]string{"c": "d"}}), want: named("full", corev1.PodSpec{
			Overhead: cpu("10m"), NodeSelector: map[string]string{"a": "b", "c": "d"}, Tolerations: narrowed.Tolerations,
		})},
		{name: "conflict", spec: named("full", corev1.PodSpec{NodeSelector: map[string]string{"a": "c"}}), err: "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"},
		{name: "other overhead", spec: named("full", corev1.PodSpec{Overhead: cpu("1")}), err: "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"},
		{name: "overhead without class", spec: corev1.PodSpec{Overhead: cpu("1")}, err: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		{name: "overhead that the class has not", spec: named("plain", corev1.PodSpec{Overhead: cpu("1")}), err: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := New()
			admissiontest.Initialize(t, p, plain, full)
			pod := &corev1.Pod{Spec: tc.spec}
			err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Name: "p", Object: pod}.Attributes())
			if tc.err != "" {
				if err == nil || !strings.HasSuffix(err.Error(), tc.err) {
					t.Errorf("error = %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, pod.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOthersPass(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p)
	pod := &corev1.Pod{Spec: corev1.PodSpec{RuntimeClassName: new("gone")}}
	for _, r := range []admissiontest.Request{
		{Resource: "pods", Operation: admission.Update, Object: pod, Old: pod},
		{Resource: "pods", Subresource: "binding", Object: &corev1.Binding{}},
		{Resource: "nodes", Object: &corev1.Node{}},
	} {
		if err := admissiontest.Run(p, r.Attributes()); err != nil {
			t.Errorf("%s %s/%s: %v", r.Operation, r.Resource, r.Subresource, err)
		}
	}
}

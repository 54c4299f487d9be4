// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podresizevalidator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func node(name, system string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}},
		Status:     corev1.NodeStatus{Allocatable: list("2", "1Gi")},
	}
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func pod(node, cpu, memory string, generation int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: generation},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(cpu, memory)}}}},
	}
}

func TestValidate(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p, node("n", "linux"), node("w", "windows"))
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		on   string
		want string
	}{
		{"fits", pod("n", "2", "1Gi", 2), "resize", ""},
		{"too much", pod("n", "3", "2Gi", 2), "resize", "cpu, requested: 3000, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824"},
		{"unchanged", pod("n", "3", "2Gi", 1), "resize", ""},
		{"without a node", pod("", "3", "2Gi", 2), "resize", ""},
		{"node gone", pod("gone", "1", "1Gi", 2), "resize", `node "gone" not found`},
		{"other system", pod("w", "1", "1Gi", 2), "resize", "only supported on linux nodes"},
		{"of something else", pod("n", "3", "2Gi", 2), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := admissiontest.Run(p, admissiontest.Request{
				Resource: "pods", Subresource: tc.on, Operation: admission.Update, Name: "p", Object: tc.pod, Old: pod(tc.pod.Spec.NodeName, "1", "1Gi", 1),
			}.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

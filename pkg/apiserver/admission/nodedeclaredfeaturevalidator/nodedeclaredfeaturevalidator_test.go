// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodedeclaredfeaturevalidator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

// pod asks for resources as a whole: to resize those is one of the features.
func pod(node, cpu string, generation int64) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: generation},
		Spec:       corev1.PodSpec{NodeName: node, Resources: &corev1.ResourceRequirements{Requests: list}},
	}
}

func TestValidate(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "able"}, Status: corev1.NodeStatus{DeclaredFeatures: []string{"InPlacePodLevelResourcesVerticalScaling"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	for _, tc := range []struct {
		name, node string
		generation int64
		want       string
	}{
		{"declared", "able", 2, ""},
		{"not declared", "old", 2, `pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "old"`},
		{"unchanged", "old", 1, ""},
		{"without a node", "", 2, ""},
		{"node gone", "gone", 2, `node "gone" not found`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := admissiontest.Run(p, admissiontest.Request{
				Resource: "pods", Subresource: "resize", Operation: admission.Update, Name: "p", Object: pod(tc.node, "2", tc.generation), Old: pod(tc.node, "1", 1),
			}.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

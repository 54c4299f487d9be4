// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package taintnodesbycondition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	taint := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute}
	for _, tc := range []struct {
		name     string
		in, want []corev1.Taint
	}{
		{"none", nil, []corev1.Taint{taint}},
		{"there already", []corev1.Taint{taint}, []corev1.Taint{taint}},
		{"another effect", []corev1.Taint{other}, []corev1.Taint{other, taint}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{Spec: corev1.NodeSpec{Taints: tc.in}}
			if err := admissiontest.Run(New(), admissiontest.Request{Resource: "nodes", Object: node}.Attributes()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, node.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

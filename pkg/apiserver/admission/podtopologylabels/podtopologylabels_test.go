// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtopologylabels

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r", corev1.LabelHostname: "h"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})
	binding := func(kind, node string) *corev1.Binding {
		return &corev1.Binding{Target: corev1.ObjectReference{Kind: kind, Name: node}}
	}
	both := map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}
	for _, tc := range []struct {
		name, sub string
		obj       *corev1.Binding
		want      map[string]string
	}{
		{"node with a zone", "binding", binding("Node", "n"), both},
		{"kind left out, as upstream", "binding", binding("", "n"), nil},
		{"node without a zone", "binding", binding("Node", "bare"), nil},
		{"unknown node", "binding", binding("Node", "none"), nil},
		{"not a node", "binding", binding("Other", "n"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Subresource: tc.sub, Object: tc.obj}.Attributes()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.obj.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	if err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Object: pod}.Attributes()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(both, pod.Labels); diff != "" {
		t.Errorf("labels of a pod made on a node (-want +got):\n%s", diff)
	}
}

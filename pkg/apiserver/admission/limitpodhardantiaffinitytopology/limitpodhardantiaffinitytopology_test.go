// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package limitpodhardantiaffinitytopology

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	term := func(key string) corev1.PodAffinityTerm { return corev1.PodAffinityTerm{TopologyKey: key} }
	required := func(terms ...corev1.PodAffinityTerm) *corev1.Affinity {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	for _, tc := range []struct {
		name     string
		affinity *corev1.Affinity
		refused  bool
	}{
		{"none", nil, false},
		{"nodes", required(term(corev1.LabelHostname)), false},
		{"zones", required(term(corev1.LabelHostname), term(corev1.LabelTopologyZone)), true},
		{"preferred", &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term("zone")}}}}, false},
		{"affinity", &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term("zone")}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: tc.affinity}}
			err := admissiontest.Run(New(), admissiontest.Request{Resource: "pods", Object: pod}.Attributes())
			if apierrors.IsForbidden(err) != tc.refused {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}

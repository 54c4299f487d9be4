// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package extendedresourcetoleration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	container := func(names ...corev1.ResourceName) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
		for _, n := range names {
			c.Resources.Requests[n] = resource.MustParse("1")
		}
		return c
	}
	toleration := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	}
	seconds := toleration("example.com/a")
	seconds.TolerationSeconds = new(int64(1))
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		want []corev1.Toleration
	}{
		{name: "nothing special", spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "hugepages-2Mi")}}},
		{
			name: "sorted, each once", want: []corev1.Toleration{toleration("example.com/a"), toleration("example.com/b")},
			spec: corev1.PodSpec{Containers: []corev1.Container{container("example.com/b"), container("example.com/a")}, InitContainers: []corev1.Container{container("example.com/a")}},
		},
		{
			name: "there already", want: []corev1.Toleration{toleration("example.com/a")},
			spec: corev1.PodSpec{Containers: []corev1.Container{container("example.com/a")}, Tolerations: []corev1.Toleration{seconds}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tc.spec}
			if err := admissiontest.Run(New(), admissiontest.Request{Resource: "pods", Object: pod}.Attributes()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, pod.Spec.Tolerations); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

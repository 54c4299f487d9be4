// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func TestSize(t *testing.T) {
	limited := func(q string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(q)}}}
	}
	tests := []struct {
		name        string
		allocatable string
		containers  []corev1.Container
		limit       string
		want        int64
	}{
		{name: "nothing known", containers: []corev1.Container{{}}},
		{name: "node", allocatable: "1Gi", containers: []corev1.Container{{}}, want: 1 << 30},
		{name: "pod", allocatable: "1Gi", containers: []corev1.Container{limited("1Mi"), limited("2Mi")}, want: 3 << 20},
		{name: "a container without limit makes the pod unlimited", allocatable: "1Gi", containers: []corev1.Container{limited("1Mi"), {}}, want: 1 << 30},
		{name: "own limit", allocatable: "1Gi", containers: []corev1.Container{limited("1Mi")}, limit: "64Ki", want: 64 << 10},
		{name: "own limit is too high", allocatable: "1Gi", containers: []corev1.Container{limited("1Mi")}, limit: "1Gi", want: 1 << 20},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := &EmptyDir{NodeAllocatable: func() corev1.ResourceList {
				if tc.allocatable == "" {
					return nil
				}
				return corev1.ResourceList{"memory": resource.MustParse(tc.allocatable)}
			}}
			s := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
			if tc.limit != "" {
				q := resource.MustParse(tc.limit)
				s.SizeLimit = &q
			}
			m := plugin.Mount{Pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: tc.containers}}, Volume: &corev1.Volume{VolumeSource: corev1.VolumeSource{EmptyDir: s}}}
			if got := e.size(m); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

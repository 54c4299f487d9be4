// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
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

func TestHugePages(t *testing.T) {
	t.Parallel()
	asking := func(names ...corev1.ResourceName) *corev1.Pod {
		p := &corev1.Pod{}
		for _, name := range names {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1Gi")}}})
		}
		return p
	}
	for _, tc := range []struct {
		medium corev1.StorageMedium
		pod    *corev1.Pod
		want   int64
		err    string
	}{
		{medium: "HugePages", pod: asking("memory", "hugepages-2Mi"), want: 2 << 20},
		{medium: "HugePages", pod: asking("hugepages-2Mi", "hugepages-2048Ki"), want: 2 << 20},
		{medium: "HugePages-1Gi", pod: asking("hugepages-2Mi", "hugepages-1Gi"), want: 1 << 30},
		{medium: "HugePages", pod: asking("hugepages-2Mi", "hugepages-1Gi"), err: "medium: HugePages can't be used if container requests multiple huge page sizes"},
		{medium: "HugePages", pod: asking("memory"), err: "medium HugePages: hugePages storage requested, but there is no resource request for huge pages"},
		{medium: "HugePages-1Gi", pod: asking("hugepages-2Mi"), err: "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages"},
		{medium: "HugePages-x", pod: asking("hugepages-2Mi"), err: "medium HugePages-x: quantities must match"},
	} {
		fake := &mount.Fake{}
		m := plugin.Mount{Pod: tc.pod, Dir: filepath.Join(t.TempDir(), "v"), Volume: &corev1.Volume{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: tc.medium}}}}
		err := (&EmptyDir{Mounts: fake}).SetUp(t.Context(), m)
		if tc.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
				t.Errorf("%s: %v, want %s", tc.medium, err, tc.err)
			}
		} else if err != nil || fake.PageSizes[m.Dir] != tc.want {
			t.Errorf("%s: %v, %v", tc.medium, err, fake.PageSizes)
		}
	}
}

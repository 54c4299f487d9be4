// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package qos

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestClass(t *testing.T) {
	need := func(requests, limits [2]string) corev1.Container {
		list := func(in [2]string) corev1.ResourceList {
			out := corev1.ResourceList{}
			for i, name := range counted {
				if in[i] != "" {
					out[name] = resource.MustParse(in[i])
				}
			}
			return out
		}
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}}
	}
	full, none := need([2]string{"1", "1Gi"}, [2]string{"1", "1Gi"}), need([2]string{}, [2]string{})
	tests := []struct {
		name string
		spec corev1.PodSpec
		want corev1.PodQOSClass
	}{
		{"nothing", corev1.PodSpec{Containers: []corev1.Container{none}}, corev1.PodQOSBestEffort},
		{"all", corev1.PodSpec{Containers: []corev1.Container{full, full}}, corev1.PodQOSGuaranteed},
		{"one of two", corev1.PodSpec{Containers: []corev1.Container{full, none}}, corev1.PodQOSBurstable},
		{"init container without", corev1.PodSpec{Containers: []corev1.Container{full}, InitContainers: []corev1.Container{none}}, corev1.PodQOSBurstable},
		{"no memory", corev1.PodSpec{Containers: []corev1.Container{need([2]string{"1", ""}, [2]string{"1", ""})}}, corev1.PodQOSBurstable},
		{"limits above requests", corev1.PodSpec{Containers: []corev1.Container{need([2]string{"1", "1Gi"}, [2]string{"2", "1Gi"})}}, corev1.PodQOSBurstable},
		{"requests only", corev1.PodSpec{Containers: []corev1.Container{need([2]string{"1", "1Gi"}, [2]string{})}}, corev1.PodQOSBurstable},
		{"limits only", corev1.PodSpec{Containers: []corev1.Container{need([2]string{}, [2]string{"1", "1Gi"})}}, corev1.PodQOSGuaranteed},
		{"of the pod", corev1.PodSpec{Resources: &full.Resources, Containers: []corev1.Container{none}}, corev1.PodQOSGuaranteed},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := Class(&tc.spec); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

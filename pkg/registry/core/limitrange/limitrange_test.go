// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package limitrange_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/core/limitrange"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func cpu(s string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(s)} }

func TestResource(t *testing.T) {
	item := func(change func(*corev1.LimitRangeItem)) func(*corev1.LimitRange) {
		return func(l *corev1.LimitRange) { change(&l.Spec.Limits[0]) }
	}
	registrytest.Run(t, limitrange.Resource, registrytest.Case[*corev1.LimitRange]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.LimitRange {
			return &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Name: "l"},
				Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: "Container", Min: cpu("1"), Max: cpu("2")}}},
			}
		},
		Update: item(func(i *corev1.LimitRangeItem) { i.Max = cpu("4") }),
		Invalid: []registrytest.Invalid[*corev1.LimitRange]{
			{Name: "type", Mutate: item(func(i *corev1.LimitRangeItem) { i.Type = "x" }), Field: "spec.limits[0].type"},
			{Name: "min above max", Mutate: item(func(i *corev1.LimitRangeItem) { i.Min = cpu("3") }), Field: "spec.limits[0].min[cpu]"},
			{Name: "default above max", Mutate: item(func(i *corev1.LimitRangeItem) { i.Default = cpu("3") }), Field: "spec.limits[0].default[cpu]"},
			{Name: "request below min", Mutate: item(func(i *corev1.LimitRangeItem) { i.DefaultRequest = cpu("0.5") }), Field: "spec.limits[0].defaultRequest[cpu]"},
			{Name: "ratio", Mutate: item(func(i *corev1.LimitRangeItem) { i.MaxLimitRequestRatio = cpu("3") }), Field: "spec.limits[0].maxLimitRequestRatio[cpu]"},
			{Name: "default of pod", Mutate: item(func(i *corev1.LimitRangeItem) { i.Type = "Pod"; i.Default = cpu("1") }), Field: "spec.limits[0].default"},
			{Name: "claim without storage", Mutate: item(func(i *corev1.LimitRangeItem) { i.Type = "PersistentVolumeClaim"; i.Min, i.Max = nil, nil }), Field: "spec.limits[0].limits"},
		},
	})
}

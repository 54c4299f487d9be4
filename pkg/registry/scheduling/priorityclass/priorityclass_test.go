// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package priorityclass

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

var group = registry.Group{
	Name:        schedulingv1.GroupName,
	AddToScheme: schedulingv1.AddToScheme,
	Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{Resource}}},
}

func TestResource(t *testing.T) {
	registrytest.Run(t, stored, registrytest.Case[*schedulingv1.PriorityClass]{
		Group: &group,
		Valid: func() *schedulingv1.PriorityClass {
			return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Value: 5}
		},
		Update: func(c *schedulingv1.PriorityClass) { c.Description = "x" },
		Invalid: []registrytest.Invalid[*schedulingv1.PriorityClass]{
			{Name: "too important", Mutate: func(c *schedulingv1.PriorityClass) { c.Value = HighestUserDefinable + 1 }, Field: "value"},
			{Name: "reserved name", Mutate: func(c *schedulingv1.PriorityClass) { c.Name = "system-x" }, Field: "metadata.name"},
			{Name: "bad policy", Mutate: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = new(corev1.PreemptionPolicy("x")) }, Field: "preemptionPolicy"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*schedulingv1.PriorityClass]{
			{Name: "value", Mutate: func(c *schedulingv1.PriorityClass) { c.Value = 6 }, Field: "value"},
		},
		Row: []any{"p", int64(5), false},
	})
}

func TestSystemAndDefault(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, group)).SchedulingV1().PriorityClasses()
	ctx := t.Context()
	for _, c := range System() {
		if _, err := client.Create(ctx, c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := client.Delete(ctx, c.Name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("deleting %s: %v, want forbidden", c.Name, err)
		}
	}
	first := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, GlobalDefault: true}
	if _, err := client.Create(ctx, first, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	second := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "b"}, GlobalDefault: true}
	if _, err := client.Create(ctx, second, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("second default: %v, want forbidden", err)
	}
}

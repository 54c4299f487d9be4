// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package configmap serves ConfigMaps: plain data for pods, at most 1 MiB, frozen once immutable. Touch it when the
// rules for that data change.
package configmap

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes configmaps.
var Resource = &registry.Resource[*corev1.ConfigMap]{
	Kind:           corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	Name:           "configmaps",
	ShortNames:     []string{"cm"},
	New:            func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
	NewList:        func() runtime.Object { return &corev1.ConfigMapList{} },
	WholeUpdate:    true,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Data", "string", corev1.ConfigMap{}.SwaggerDoc()["data"]),
		registry.AgeColumn,
	},
	Row: func(c *corev1.ConfigMap) []any {
		return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), registry.Age(c.CreationTimestamp)}
	},
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourcequota serves ResourceQuotas: how much a namespace may use in all. Touch it when their rules change; the
// resourcequota admission plugin and controller apply them.
package resourcequota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes resourcequotas.
var Resource = &registry.Resource[*corev1.ResourceQuota]{
	Kind:           corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
	Name:           "resourcequotas",
	ShortNames:     []string{"quota"},
	New:            func() *corev1.ResourceQuota { return &corev1.ResourceQuota{} },
	NewList:        func() runtime.Object { return &corev1.ResourceQuotaList{} },
	ReturnDeleted:  true,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Status:         &registry.Status[*corev1.ResourceQuota]{Validate: validateStatus},
	Default: func(q *corev1.ResourceQuota) {
		quantity.SetDefaults(q.Spec.Hard)
		quantity.SetDefaults(q.Status.Hard)
		quantity.SetDefaults(q.Status.Used)
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume."),
		registry.Column("Limit", "string", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
		registry.AgeColumn,
	},
	Row: row,
}

func row(q *corev1.ResourceQuota) []any {
	var requests, limits []string
	names := quantity.Names(q.Status.Hard)
	slices.Sort(names)
	for _, name := range names {
		used, hard := q.Status.Used[name], q.Status.Hard[name]
		cell := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, cell)
		} else {
			requests = append(requests, cell)
		}
	}
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), registry.Age(q.CreationTimestamp)}
}

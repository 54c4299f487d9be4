// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount serves ServiceAccounts, the identities of pods, and issues their tokens by the token
// subresource. Touch it when the rules of bound tokens change.
package serviceaccount

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes serviceaccounts.
var Resource = &registry.Resource[*corev1.ServiceAccount]{
	Kind:          corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	Name:          "serviceaccounts",
	ShortNames:    []string{"sa"},
	New:           func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} },
	NewList:       func() runtime.Object { return &corev1.ServiceAccountList{} },
	ReturnDeleted: true,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Secrets", "string", corev1.ServiceAccount{}.SwaggerDoc()["secrets"]),
		registry.AgeColumn,
	},
	Row: func(a *corev1.ServiceAccount) []any {
		return []any{a.Name, int64(len(a.Secrets)), registry.Age(a.CreationTimestamp)}
	},
	Subresources: func(s *registry.Store[*corev1.ServiceAccount], c registry.Config) (map[string]rest.Storage, error) {
		if c.Tokens == nil {
			return nil, nil
		}
		return map[string]rest.Storage{"token": &TokenREST{accounts: s, config: c}}, nil
	},
}

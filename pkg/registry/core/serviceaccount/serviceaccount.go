// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount serves ServiceAccounts, the identities of pods, and issues their tokens by the token
// subresource. Touch it when the rules of bound tokens change.
package serviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes serviceaccounts.
var Resource = &registry.Resource[*corev1.ServiceAccount]{
	Kind:             corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	Name:             "serviceaccounts",
	ShortNames:       []string{"sa"},
	New:              func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} },
	NewList:          func() runtime.Object { return &corev1.ServiceAccountList{} },
	WholeUpdate:      true,
	ReturnDeleted:    true,
	PrepareForCreate: func(_ context.Context, a *corev1.ServiceAccount) { keepSecretNames(a) },
	PrepareForUpdate: func(_ context.Context, a, _ *corev1.ServiceAccount) { keepSecretNames(a) },
	Warnings:         warnings,
	Columns:          []metav1.TableColumnDefinition{registry.NameColumn, registry.AgeColumn},
	Row:              func(a *corev1.ServiceAccount) []any { return []any{a.Name, registry.Age(a.CreationTimestamp)} },
	Subresources: func(s *registry.Store[*corev1.ServiceAccount], c registry.Config) (map[string]rest.Storage, error) {
		if c.Tokens == nil {
			return nil, nil
		}
		return map[string]rest.Storage{"token": &TokenREST{accounts: s, config: c}}, nil
	},
}

// keepSecretNames drops all else that references to Secrets have fields for.
func keepSecretNames(a *corev1.ServiceAccount) {
	for i, s := range a.Secrets {
		a.Secrets[i] = corev1.ObjectReference{Name: s.Name}
	}
}

const mountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func warnings(_ context.Context, a, old *corev1.ServiceAccount) []string {
	if _, set := a.Annotations[mountableSecrets]; !set {
		return nil
	}
	if old != nil {
		if _, before := old.Annotations[mountableSecrets]; before {
			return nil
		}
	}
	return []string{"metadata.annotations[" + mountableSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}

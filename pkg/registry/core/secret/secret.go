// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package secret serves Secrets: like ConfigMaps, but bytes, and of a type that says which keys must be there. Touch it
// when a type or its rules change.
package secret

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes secrets.
var Resource = &registry.Resource[*corev1.Secret]{
	Kind:        corev1.SchemeGroupVersion.WithKind("Secret"),
	Name:        "secrets",
	New:         func() *corev1.Secret { return &corev1.Secret{} },
	NewList:     func() runtime.Object { return &corev1.SecretList{} },
	WholeUpdate: true,
	Default:     setDefaults,
	PrepareForUpdate: func(_ context.Context, s, old *corev1.Secret) {
		// Clients that leave the type out mean the one it has.
		if len(s.Type) == 0 {
			s.Type = old.Type
		}
	},
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	Fields:         registry.Fields[*corev1.Secret]{"type": func(s *corev1.Secret) string { return string(s.Type) }},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Type", "string", corev1.Secret{}.SwaggerDoc()["type"]),
		registry.Column("Data", "string", corev1.Secret{}.SwaggerDoc()["data"]),
		registry.AgeColumn,
	},
	Row: func(s *corev1.Secret) []any {
		return []any{s.Name, string(s.Type), int64(len(s.Data)), registry.Age(s.CreationTimestamp)}
	},
}

// setDefaults also merges the write-only stringData into data, where its keys win.
func setDefaults(s *corev1.Secret) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	if len(s.StringData) == 0 {
		return
	}
	if s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for k, v := range s.StringData {
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
}

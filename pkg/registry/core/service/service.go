// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package service serves Services: it gives them ClusterIPs and node ports, which no two services share on any API
// server, and proxies to their endpoints. What is taken and freed is decided by pure functions (plan.go, families.go)
// and done by Allocators. Touch it when the rules for services change.
package service

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes services. Names may start with a digit (KEP-5311).
var Resource = &registry.Resource[*corev1.Service]{
	Kind:           corev1.SchemeGroupVersion.WithKind("Service"),
	Name:           "services",
	ShortNames:     []string{"svc"},
	Categories:     []string{"all"},
	New:            func() *corev1.Service { return &corev1.Service{} },
	NewList:        func() runtime.Object { return &corev1.ServiceList{} },
	ReturnDeleted:  true,
	Default:        setDefaults,
	ValidateName:   apivalidation.NameIsDNSLabel,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	Status:         &registry.Status[*corev1.Service]{Validate: validateStatus, Warnings: statusWarnings},
	// A PUT may create, as upstream.
	AllowCreateOnUpdate: true,
	Fields: registry.Fields[*corev1.Service]{
		"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
		"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
	},
	Columns:   columns,
	Row:       row,
	Configure: configure,
	Subresources: func(s *registry.Store[*corev1.Service], c registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"proxy": newProxyREST(s, c)}, nil
	},
}

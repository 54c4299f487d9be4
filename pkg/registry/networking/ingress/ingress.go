// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ingress serves Ingresses: which HTTP requests from outside go to which Services. Nothing in minik8s serves them;
// an ingress controller does. Touch it when their rules change.
package ingress

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

// ClassAnnotation named the class before spec.ingressClassName did.
const ClassAnnotation = "kubernetes.io/ingress.class"

// Resource describes ingresses.
var Resource = &registry.Resource[*networkingv1.Ingress]{
	Kind:           networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	Name:           "ingresses",
	ShortNames:     []string{"ing"},
	New:            func() *networkingv1.Ingress { return &networkingv1.Ingress{} },
	NewList:        func() runtime.Object { return &networkingv1.IngressList{} },
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	Spec:           func(in *networkingv1.Ingress) any { return in.Spec },
	Status:         &registry.Status[*networkingv1.Ingress]{Validate: validateStatus},
	Columns:        columns,
	Row:            row,
}

func warnings(_ context.Context, in, old *networkingv1.Ingress) []string {
	if _, set := in.Annotations[ClassAnnotation]; old == nil && set && in.Spec.IngressClassName == nil {
		return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", ClassAnnotation)}
	}
	return nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package leastmem prefers the node that uses the smallest share of its memory, as it is
// measured and not as pods have requested it. What counts is said in internal/usage.
package leastmem

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/policies/internal/usage"
)

// Name of the plugin.
const Name = "LeastMem"

// New returns the plugin.
func New(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return usage.New(ctx, Name, corev1.ResourceMemory, h)
}

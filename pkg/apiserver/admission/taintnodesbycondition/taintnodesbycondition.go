// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package taintnodesbycondition gives every new node the taint of one that is not ready, so that nothing is scheduled to it
// before the node lifecycle controller has seen its conditions. Touch it when new nodes need another taint.
package taintnodesbycondition

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "TaintNodesByCondition"

type plugin struct{ *admission.Handler }

var _ admission.MutationInterface = plugin{}

// New returns the plugin.
func New() admission.Interface { return plugin{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("nodes") || a.GetSubresource() != "" {
		return nil
	}
	node, err := object.New[*corev1.Node](a)
	if err != nil {
		return err
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package node serves Nodes, the proxy to their kubelets, and knows how to reach a kubelet (ConnectionInfo). Touch it
// when the rules for nodes or the way to kubelets change.
package node

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes nodes.
var Resource = &registry.Resource[*corev1.Node]{
	Kind:           corev1.SchemeGroupVersion.WithKind("Node"),
	Name:           "nodes",
	ShortNames:     []string{"no"},
	ClusterScoped:  true,
	New:            func() *corev1.Node { return &corev1.Node{} },
	NewList:        func() runtime.Object { return &corev1.NodeList{} },
	WholeUpdate:    true,
	Default:        setDefaults,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	PrepareForCreate: func(_ context.Context, n *corev1.Node) {
		n.Spec.ConfigSource, n.Status.Config, n.Spec.PodPreemptionPolicy = nil, nil, nil
	},
	PrepareForUpdate: prepareForUpdate,
	// Kubelets register themselves together with their status.
	Status:  &registry.Status[*corev1.Node]{OnCreate: true, PrepareForUpdate: prepareStatus, Validate: validateChange},
	Fields:  registry.Fields[*corev1.Node]{"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) }},
	Columns: columns,
	Row:     row,
	Subresources: func(_ *registry.Store[*corev1.Node], c registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"proxy": newProxyREST(c.Kubelet)}, nil
	},
}

// prepareForUpdate drops fields of features that are removed or off, unless they are there already.
func prepareForUpdate(_ context.Context, n, old *corev1.Node) {
	if old.Spec.ConfigSource == nil {
		n.Spec.ConfigSource = nil
	}
	if old.Spec.PodPreemptionPolicy == nil {
		n.Spec.PodPreemptionPolicy = nil
	}
}

func prepareStatus(_ context.Context, n, old *corev1.Node) {
	if old.Status.Config == nil {
		n.Status.Config = nil
	}
}

// setDefaults keeps the twins podCIDR and podCIDRs in step and lets allocatable default to capacity.
func setDefaults(n *corev1.Node) {
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	switch {
	case n.Spec.PodCIDR != "" && (len(n.Spec.PodCIDRs) == 0 || n.Spec.PodCIDRs[0] != n.Spec.PodCIDR):
		n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
	case len(n.Spec.PodCIDRs) > 0 && n.Spec.PodCIDR == "":
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
}

func warnings(_ context.Context, n, _ *corev1.Node) []string {
	var out []string
	if n.Spec.ConfigSource != nil {
		out = append(out, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range n.Spec.PodCIDRs {
		out = append(out, validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
	}
	return out
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package node serves Nodes, the proxy to their kubelets, and knows how to reach a kubelet (ConnectionInfo). Touch it
// when the rules for nodes or the way to kubelets change.
package node

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
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
	ReturnDeleted:  true,
	Default:        setDefaults,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	// Kubelets register themselves together with their status.
	Status: &registry.Status[*corev1.Node]{OnCreate: true, Validate: validateUpdate},
	Fields: func(n *corev1.Node) fields.Set {
		return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
	},
	Columns: columns,
	Row:     row,
	Subresources: func(s *registry.Store[*corev1.Node], c registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"proxy": &ProxyREST{nodes: s, kubelet: c.Kubelet}}, nil
	},
}

// setDefaults keeps the twins podCIDR and podCIDRs in step and lets allocatable default to capacity.
func setDefaults(n *corev1.Node) {
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	switch {
	case len(n.Spec.PodCIDRs) == 0 && n.Spec.PodCIDR != "":
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
	return out
}

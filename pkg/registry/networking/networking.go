// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package networking lists the resources of networking.k8s.io; a new one is a folder here and a line in Group.
package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/networking/ingress"
	"minik8s.io/minik8s/pkg/registry/networking/ingressclass"
	"minik8s.io/minik8s/pkg/registry/networking/ipaddress"
	"minik8s.io/minik8s/pkg/registry/networking/networkpolicy"
	"minik8s.io/minik8s/pkg/registry/networking/servicecidr"
)

// Group is networking.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        networkingv1.GroupName,
		AddToScheme: networkingv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			ingress.Resource,
			ingressclass.Resource,
			networkpolicy.Resource,
			ipaddress.Resource,
			servicecidr.Resource,
		}}},
	}
}

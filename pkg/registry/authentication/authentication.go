// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package authentication lists the resources of authentication.k8s.io: questions about who somebody is. A new one is a
// folder here and a line in Group.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/authentication/selfsubjectreview"
	"minik8s.io/minik8s/pkg/registry/authentication/tokenreview"
)

// Group is authentication.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        authenticationv1.GroupName,
		AddToScheme: authenticationv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			tokenreview.Resource,
			selfsubjectreview.Resource,
		}}},
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package authorization lists the resources of authorization.k8s.io: questions about what somebody may do. A new one is a
// folder here and a line in Group; what they share is in access.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/authorization/localsubjectaccessreview"
	"minik8s.io/minik8s/pkg/registry/authorization/selfsubjectaccessreview"
	"minik8s.io/minik8s/pkg/registry/authorization/selfsubjectrulesreview"
	"minik8s.io/minik8s/pkg/registry/authorization/subjectaccessreview"
)

// Group is authorization.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        authorizationv1.GroupName,
		AddToScheme: authorizationv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			subjectaccessreview.Resource,
			selfsubjectaccessreview.Resource,
			localsubjectaccessreview.Resource,
			selfsubjectrulesreview.Resource,
		}}},
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy lists the resources of the policy group; a new one is a folder here and a line in Group.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/policy/poddisruptionbudget"
)

// Group is policy.
func Group() registry.Group {
	return registry.Group{
		Name:        policyv1.GroupName,
		AddToScheme: policyv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{poddisruptionbudget.Resource}}},
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rbac lists the resources of rbac.authorization.k8s.io; a new one is a folder here and a line in Group. The
// rules that all four share are in policy, the check that nobody grants more than they hold in escalation.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/rbac/clusterrole"
	"minik8s.io/minik8s/pkg/registry/rbac/clusterrolebinding"
	"minik8s.io/minik8s/pkg/registry/rbac/role"
	"minik8s.io/minik8s/pkg/registry/rbac/rolebinding"
)

// Group is rbac.authorization.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        rbacv1.GroupName,
		AddToScheme: rbacv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			clusterrolebinding.Resource,
			clusterrole.Resource,
			rolebinding.Resource,
			role.Resource,
		}}},
	}
}

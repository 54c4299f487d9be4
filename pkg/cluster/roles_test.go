// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/controllers"
)

// TestEveryControllerHasARole: a controller whose account nobody has bound fails only at run time. It is here because
// neither part may know the other.
func TestEveryControllerHasARole(t *testing.T) {
	t.Parallel()
	bound := map[string]bool{}
	for _, b := range policy.Default().ClusterRoleBindings {
		for _, s := range b.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind {
				bound[s.Name] = true
			}
		}
	}
	for _, c := range controllers.List() {
		if !bound[c.ServiceAccount] {
			t.Errorf("controller %s writes as ServiceAccount %s, which has no role", c.Name, c.ServiceAccount)
		}
	}
}

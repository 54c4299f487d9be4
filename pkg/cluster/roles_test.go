// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/controllers"
)

// TestEveryControllerHasARole: a controller whose account nobody has bound fails only at run time. It is here because
// neither part may know the other.
func TestEveryControllerHasARole(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, true)
	bound := map[string]bool{}
	note := func(subjects []rbacv1.Subject) {
		for _, s := range subjects {
			if s.Kind == rbacv1.ServiceAccountKind {
				bound[s.Name] = true
			}
		}
	}
	for _, b := range policy.Default().ClusterRoleBindings {
		note(b.Subjects)
	}
	for _, b := range policy.Default().RoleBindings {
		note(b.Subjects)
	}
	for _, c := range controllers.List() {
		if c.ServiceAccount != "" && !bound[c.ServiceAccount] {
			t.Errorf("controller %s writes as ServiceAccount %s, which has no role", c.Name, c.ServiceAccount)
		}
	}
}

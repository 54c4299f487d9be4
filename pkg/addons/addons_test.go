// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// No add-on may read Secrets by itself, but where somebody binds a role to its account that is there for that.
func TestRules_Secrets(t *testing.T) {
	t.Parallel()
	reads := func(rules []rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.ContainsFunc(r.Resources, func(resource string) bool { return resource == "*" || strings.HasPrefix(resource, "secrets") })
		})
	}
	for _, a := range List() {
		if reads(a.Rules) {
			t.Errorf("%s may read Secrets wherever they are", a.Name)
		}
		for _, role := range a.Granted {
			if !strings.HasPrefix(role.Name, User(a)+":") || !reads(role.Rules) {
				t.Errorf("%s: the role %s: %v", a.Name, role.Name, role.Rules)
			}
		}
	}
}

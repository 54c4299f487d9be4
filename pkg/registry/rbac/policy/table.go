// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry"
)

// RoleColumns are the columns of roles and cluster roles.
var RoleColumns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Created At", "date", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]),
}

// RoleRow makes a row for RoleColumns.
func RoleRow(m metav1.ObjectMeta) []any {
	return []any{m.Name, m.CreationTimestamp.UTC().Format(time.RFC3339)}
}

// BindingColumns are the columns of role bindings and cluster role bindings.
func BindingColumns(kind, roleRef string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Role", "string", roleRef),
		registry.AgeColumn,
		registry.WideColumn("Users", "string", "Users in the "+kind),
		registry.WideColumn("Groups", "string", "Groups in the "+kind),
		registry.WideColumn("ServiceAccounts", "string", "ServiceAccounts in the "+kind),
	}
}

// BindingRow makes a row for BindingColumns.
func BindingRow(m metav1.ObjectMeta, ref rbacv1.RoleRef, subjects []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{
		m.Name, ref.Kind + "/" + ref.Name, registry.Age(m.CreationTimestamp),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}

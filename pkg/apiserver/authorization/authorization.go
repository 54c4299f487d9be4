// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package authorization decides whether a user may make a request, by the configured authorizers in order. Touch it to
// add another (a folder, and a line in modes).
package authorization

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/informers"

	"minik8s.io/minik8s/pkg/apiserver/authorization/node"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/apiserver/authorization/rbac"
)

// Config of the authorizers.
type Config struct {
	// Modes are names of authorizers, in order: Node, RBAC, AlwaysAllow, AlwaysDeny.
	Modes []string
	// Informers feed the authorizers; the caller starts them.
	Informers informers.SharedInformerFactory
}

// mode builds one authorizer and, if it has one, its rule resolver.
type mode func(Config) (authorizer.Authorizer, authorizer.RuleResolver, error)

var modes = map[string]mode{
	"Node": newNode,
	"RBAC": newRBAC,
	"AlwaysAllow": func(Config) (authorizer.Authorizer, authorizer.RuleResolver, error) {
		a := authorizerfactory.NewAlwaysAllowAuthorizer()
		return a, a, nil
	},
	"AlwaysDeny": func(Config) (authorizer.Authorizer, authorizer.RuleResolver, error) {
		a := authorizerfactory.NewAlwaysDenyAuthorizer()
		return a, a, nil
	},
}

// New returns the union of the configured authorizers. system:masters may do all, whatever they say.
func New(c Config) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	all := []union.NamedAuthorizer{{AuthorizerName: "SystemMasters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}}
	var resolvers []authorizer.RuleResolver
	for _, name := range c.Modes {
		build, ok := modes[name]
		if !ok {
			return nil, nil, fmt.Errorf("unknown authorization mode %q: known are %v", name, slices.Sorted(maps.Keys(modes)))
		}
		a, r, err := build(c)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, union.NamedAuthorizer{AuthorizerName: name, Authorizer: a})
		if r != nil {
			resolvers = append(resolvers, r)
		}
	}
	joined, err := union.New(all...)
	return joined, union.NewRuleResolvers(resolvers...), err
}

func newRBAC(c Config) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	i := c.Informers.Rbac().V1()
	a := &rbac.Authorizer{
		Roles: i.Roles().Lister(), RoleBindings: i.RoleBindings().Lister(),
		ClusterRoles: i.ClusterRoles().Lister(), ClusterRoleBindings: i.ClusterRoleBindings().Lister(),
	}
	return a, a, nil
}

func newNode(c Config) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	a := &node.Authorizer{Index: node.NewIndex(), Rules: policy.NodeRules()}
	if _, err := c.Informers.Core().V1().Pods().Informer().AddEventHandler(a.Index.Handler()); err != nil {
		return nil, nil, fmt.Errorf("watching pods for the Node authorizer: %w", err)
	}
	return a, a, nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rbac decides by Roles and ClusterRoles and their bindings; touch it when the meaning of a rule changes. What
// roles exist from the start is in the policy package.
package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// Authorizer allows what a rule allows and has no opinion on all else. Safe for concurrent use.
type Authorizer struct {
	Roles        rbaclisters.RoleLister
	ClusterRoles rbaclisters.ClusterRoleLister
	// RoleBindings and ClusterRoleBindings have the Indexers of this package.
	RoleBindings, ClusterRoleBindings cache.Indexer
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// New returns an Authorizer that informers feed, which must not run yet.
func New(i rbacinformers.Interface) (*Authorizer, error) {
	bindings, clusterBindings := i.RoleBindings().Informer(), i.ClusterRoleBindings().Informer()
	for _, watched := range []cache.SharedIndexInformer{bindings, clusterBindings} {
		if err := watched.AddIndexers(Indexers()); err != nil {
			return nil, fmt.Errorf("indexing bindings: %w", err)
		}
	}
	return &Authorizer{
		Roles: i.Roles().Lister(), RoleBindings: bindings.GetIndexer(),
		ClusterRoles: i.ClusterRoles().Lister(), ClusterRoleBindings: clusterBindings.GetIndexer(),
	}, nil
}

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	reason := ""
	err := a.visit(attrs.GetUser(), attrs.GetNamespace(), func(g grant, rule *rbacv1.PolicyRule) bool {
		if Allows(attrs, rule) {
			reason = "RBAC: allowed by " + g.String()
			return false
		}
		return true
	})
	if reason != "" {
		return authorizer.DecisionAllow, reason, nil
	}
	if err != nil {
		reason = fmt.Sprintf("RBAC: %v", err)
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer; rules have no conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attrs))
}

// EvaluateConditions implements authorizer.Authorizer.
func (a *Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor implements authorizer.RuleResolver.
func (a *Authorizer) RulesFor(_ context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	err := a.visit(u, namespace, func(_ grant, r *rbacv1.PolicyRule) bool {
		if len(r.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
		}
		if len(r.NonResourceURLs) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
		return true
	})
	return resources, paths, false, err
}

// visit calls f with every rule that applies to a user in a namespace, and with what grants it, until f returns false. Bindings to
// roles that do not exist are collected as errors and otherwise passed over.
func (a *Authorizer) visit(u user.Info, namespace string, f func(g grant, rule *rbacv1.PolicyRule) bool) error {
	grants, err := clusterGrants(a.ClusterRoleBindings, u)
	if err != nil {
		return err
	}
	if namespace != "" {
		local, err := localGrants(a.RoleBindings, u, namespace)
		if err != nil {
			return err
		}
		grants = append(grants, local...)
	}
	var errs []error
	for _, g := range grants {
		rules, err := a.rules(g.role, g.namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range rules {
			if !f(g, &rules[i]) {
				return nil
			}
		}
	}
	return aggregate(errs)
}

func aggregate(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.NewAggregate(errs)
}

func (a *Authorizer) rules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		role, err := a.Roles.Roles(namespace).Get(ref.Name)
		if err != nil {
			return nil, notFound(err, "role", ref.Name)
		}
		return role.Rules, nil
	case "ClusterRole":
		role, err := a.ClusterRoles.Get(ref.Name)
		if err != nil {
			return nil, notFound(err, "clusterrole", ref.Name)
		}
		return role.Rules, nil
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

func notFound(err error, kind, name string) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s.rbac.authorization.k8s.io %q not found", kind, name)
	}
	return errors.Join(fmt.Errorf("reading %s %q", kind, name), err)
}

// Allows reports whether a rule allows a request.
func Allows(attrs authorizer.Attributes, r *rbacv1.PolicyRule) bool {
	if !matches(r.Verbs, attrs.GetVerb()) {
		return false
	}
	if !attrs.IsResourceRequest() {
		return slices.ContainsFunc(r.NonResourceURLs, func(u string) bool { return pathMatches(u, attrs.GetPath()) })
	}
	return matches(r.APIGroups, attrs.GetAPIGroup()) &&
		resourceMatches(r.Resources, attrs.GetResource(), attrs.GetSubresource()) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, attrs.GetName()))
}

func matches(list []string, want string) bool {
	return slices.Contains(list, rbacv1.VerbAll) || slices.Contains(list, want)
}

// resourceMatches knows "*", "pods", "pods/log" and "*/log".
func resourceMatches(list []string, resource, subresource string) bool {
	combined := resource
	if subresource != "" {
		combined += "/" + subresource
	}
	for _, r := range list {
		if r == rbacv1.ResourceAll || r == combined || subresource != "" && r == "*/"+subresource {
			return true
		}
	}
	return false
}

// pathMatches knows "*" at the end.
func pathMatches(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}

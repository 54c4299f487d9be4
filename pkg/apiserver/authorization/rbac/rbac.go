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
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
)

// Authorizer allows what a rule allows and has no opinion on all else. Safe for concurrent use.
type Authorizer struct {
	Roles               rbaclisters.RoleLister
	RoleBindings        rbaclisters.RoleBindingLister
	ClusterRoles        rbaclisters.ClusterRoleLister
	ClusterRoleBindings rbaclisters.ClusterRoleBindingLister
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	reason := ""
	err := a.visit(attrs.GetUser(), attrs.GetNamespace(), func(source string, rule *rbacv1.PolicyRule) bool {
		if Allows(attrs, rule) {
			reason = "RBAC: allowed by " + source
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
	err := a.visit(u, namespace, func(_ string, r *rbacv1.PolicyRule) bool {
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

// visit calls f with every rule that applies to a user in a namespace until f returns false. Bindings to roles that do
// not exist are collected as errors and otherwise passed over.
func (a *Authorizer) visit(u user.Info, namespace string, f func(source string, rule *rbacv1.PolicyRule) bool) error {
	var errs []error
	clusterBindings, err := a.ClusterRoleBindings.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, b := range clusterBindings {
		subject := applies(u, b.Subjects, "")
		if subject == nil {
			continue
		}
		rules, err := a.rules(b.RoleRef, "")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		source := fmt.Sprintf("ClusterRoleBinding %q of ClusterRole %q to %s", b.Name, b.RoleRef.Name, describe(subject, ""))
		if !each(rules, source, f) {
			return nil
		}
	}
	if namespace == "" {
		return aggregate(errs)
	}
	bindings, err := a.RoleBindings.RoleBindings(namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	for _, b := range bindings {
		subject := applies(u, b.Subjects, namespace)
		if subject == nil {
			continue
		}
		rules, err := a.rules(b.RoleRef, namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		source := fmt.Sprintf("RoleBinding %q of %s %q to %s", b.Name+"/"+namespace, b.RoleRef.Kind, b.RoleRef.Name, describe(subject, namespace))
		if !each(rules, source, f) {
			return nil
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

func each(rules []rbacv1.PolicyRule, source string, f func(string, *rbacv1.PolicyRule) bool) bool {
	for i := range rules {
		if !f(source, &rules[i]) {
			return false
		}
	}
	return true
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

// applies returns the subject that names the user, if any.
func applies(u user.Info, subjects []rbacv1.Subject, namespace string) *rbacv1.Subject {
	for i := range subjects {
		s := &subjects[i]
		switch s.Kind {
		case rbacv1.UserKind:
			if u.GetName() == s.Name {
				return s
			}
		case rbacv1.GroupKind:
			if slices.Contains(u.GetGroups(), s.Name) {
				return s
			}
		case rbacv1.ServiceAccountKind:
			ns := namespace
			if s.Namespace != "" {
				ns = s.Namespace
			}
			if ns != "" && serviceaccount.MatchesUsername(ns, s.Name, u.GetName()) {
				return s
			}
		}
	}
	return nil
}

func describe(s *rbacv1.Subject, namespace string) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+namespace)
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name)
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

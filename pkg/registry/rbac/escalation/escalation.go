// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package escalation keeps users from granting more than they hold: who writes a role must hold its rules or the verb
// "escalate", who binds a role must hold its rules or the verb "bind". Touch it when these checks change; see
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping.
package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-helpers/auth/rbac/validation"

	"minik8s.io/minik8s/pkg/registry"
)

// Checker decides whether the user of a request may write a role or binding. Without RoleRules everything may be written.
type Checker struct {
	config registry.Config
}

// New returns a checker.
func New(c registry.Config) *Checker { return &Checker{config: c} }

// fullAuthority is what a cluster role with an aggregation rule may become.
var fullAuthority = []rbacv1.PolicyRule{
	{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
}

// LetsGo tells whether an update changes only what an object needs to be let go by the garbage collector, which holds no rules. A label
// is none of that: by one a role becomes part of an aggregated role.
func LetsGo(obj, old registry.Object) bool {
	same := obj.DeepCopyObject().(registry.Object)
	registry.KeepKind(same, old)
	same.SetOwnerReferences(old.GetOwnerReferences())
	same.SetFinalizers(old.GetFinalizers())
	same.SetManagedFields(old.GetManagedFields())
	return apiequality.Semantic.DeepEqual(same, old)
}

// Role checks the rules of a role ("roles" or "clusterroles") that is about to be written into a namespace ("" for
// cluster roles). aggregated tells that its rules come from other roles now or before. The verb is asked for by the name in the request,
// where what POST makes has none: who may escalate one role may not make it.
func (c *Checker) Role(ctx context.Context, resource, namespace, name string, rules []rbacv1.PolicyRule, aggregated bool) error {
	u, exempt, err := c.user(ctx)
	if err != nil || exempt {
		return err
	}
	if request, ok := genericapirequest.RequestInfoFrom(ctx); ok && c.may(ctx, u, "escalate", resource, namespace, request.Name) {
		return nil
	}
	if err := c.holds(ctx, u, namespace, rules); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource(resource), name, err)
	}
	if aggregated {
		if err := c.holds(ctx, u, namespace, fullAuthority); err != nil {
			return apierrors.NewForbidden(rbacv1.Resource(resource), name, errors.New("must have cluster-admin privileges to use the aggregationRule"))
		}
	}
	return nil
}

// Binding checks a binding ("rolebindings" or "clusterrolebindings") to a role.
func (c *Checker) Binding(ctx context.Context, resource, namespace, name string, ref rbacv1.RoleRef) error {
	u, exempt, err := c.user(ctx)
	if err != nil || exempt {
		return err
	}
	target := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	if target != "" && c.may(ctx, u, "bind", target, namespace, ref.Name) {
		return nil
	}
	rules, err := c.rules(ctx, namespace, ref)
	if err != nil {
		return err
	}
	if err := c.holds(ctx, u, namespace, rules); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource(resource), name, err)
	}
	return nil
}

// user returns who asks and whether they may do everything.
func (c *Checker) user(ctx context.Context) (u user.Info, exempt bool, err error) {
	if c.config.RoleRules == nil {
		return nil, true, nil
	}
	u, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return nil, false, apierrors.NewInternalError(errors.New("no user on context"))
	}
	return u, slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup), nil
}

// may asks the authorizer for one of the two verbs that permit escalation.
func (c *Checker) may(ctx context.Context, u user.Info, verb, resource, namespace, name string) bool {
	if c.config.Authorizer == nil {
		return false
	}
	decision, _, err := c.config.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: u, Verb: verb, Namespace: namespace, Name: name,
		APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: resource, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}

// rules are those of the role that is referred to.
func (c *Checker) rules(ctx context.Context, namespace string, ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	get := func(resource string) (any, error) {
		store, err := c.config.Stores.Get(rbacv1.Resource(resource))
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		return store.Get(genericapirequest.WithNamespace(ctx, namespace), ref.Name, &metav1.GetOptions{})
	}
	switch (schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}) {
	case schema.GroupKind{Group: rbacv1.GroupName, Kind: "Role"}:
		obj, err := get("roles")
		if err != nil {
			return nil, err
		}
		return obj.(*rbacv1.Role).Rules, nil
	case schema.GroupKind{Group: rbacv1.GroupName, Kind: "ClusterRole"}:
		obj, err := get("clusterroles")
		if err != nil {
			return nil, err
		}
		return obj.(*rbacv1.ClusterRole).Rules, nil
	}
	// Validation refuses the kind right after this; nothing is granted.
	return nil, nil
}

// holds fails with the rules that the user lacks.
func (c *Checker) holds(ctx context.Context, u user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	resources, urls, _, resolveErr := c.config.RoleRules.RulesFor(ctx, u, namespace)
	ok, missing := validation.Covers(owned(resources, urls), rules)
	if ok {
		return nil
	}
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(describe(missing), "\n"))
	if resolveErr != nil {
		msg += fmt.Sprintf("; resolution errors: [%v]", resolveErr)
	}
	return errors.New(msg)
}

func owned(resources []authorizer.ResourceRuleInfo, urls []authorizer.NonResourceRuleInfo) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, 0, len(resources)+len(urls))
	for _, r := range resources {
		out = append(out, rbacv1.PolicyRule{Verbs: r.GetVerbs(), APIGroups: r.GetAPIGroups(), Resources: r.GetResources(), ResourceNames: r.GetResourceNames()})
	}
	for _, r := range urls {
		out = append(out, rbacv1.PolicyRule{Verbs: r.GetVerbs(), NonResourceURLs: r.GetNonResourceURLs()})
	}
	return out
}

// describe prints rules in upstream's compact form, one per target with all its verbs.
func describe(rules []rbacv1.PolicyRule) []string {
	verbs := map[string][]string{}
	for _, r := range rules {
		var target strings.Builder
		for _, part := range []struct {
			name   string
			values []string
		}{{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs}, {"ResourceNames", r.ResourceNames}} {
			if len(part.values) > 0 {
				fmt.Fprintf(&target, "%s:%q, ", part.name, part.values)
			}
		}
		verbs[target.String()] = append(verbs[target.String()], r.Verbs...)
	}
	var out []string
	for target, v := range verbs {
		out = append(out, fmt.Sprintf("{%sVerbs:%q}", target, v))
	}
	slices.Sort(out)
	return out
}

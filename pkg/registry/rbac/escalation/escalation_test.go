// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package escalation

import (
	"context"
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/registry"
)

// held is a resolver that knows one set of rules for everybody.
type held []rbacv1.PolicyRule

func (h held) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var resources []authorizer.ResourceRuleInfo
	var urls []authorizer.NonResourceRuleInfo
	for _, r := range h {
		if len(r.NonResourceURLs) > 0 {
			urls = append(urls, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		} else {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
		}
	}
	return resources, urls, false, nil
}

// only allows one verb on one resource, of one name if there is one.
type only struct{ verb, resource, name string }

func (o only) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == o.verb && a.GetResource() == o.resource && a.GetAPIGroup() == rbacv1.GroupName && (o.name == "" || a.GetName() == o.name) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (o only) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(o.Authorize(ctx, a))
}

func (o only) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

func rule(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}}
}

func TestRole(t *testing.T) {
	tests := []struct {
		name       string
		held       []rbacv1.PolicyRule
		groups     []string
		may        only
		rules      []rbacv1.PolicyRule
		aggregated bool
		post       bool // names nothing in its path
		refused    string
	}{
		{name: "holds", held: rule("get", "list"), rules: rule("get")},
		{name: "lacks", held: rule("get"), rules: rule("get", "delete", "create"), refused: `{APIGroups:[""], Resources:["pods"], Verbs:["delete" "create"]}`},
		{name: "masters", groups: []string{user.SystemPrivilegedGroup}, rules: rule("*")},
		{name: "escalate", may: only{verb: "escalate", resource: "roles"}, rules: rule("*")},
		{name: "escalate of all names, by POST", may: only{verb: "escalate", resource: "roles"}, rules: rule("*"), post: true},
		{name: "escalate of the name", may: only{verb: "escalate", resource: "roles", name: "r"}, rules: rule("*")},
		{name: "escalate of another name", may: only{verb: "escalate", resource: "roles", name: "s"}, rules: rule("*"), refused: "not currently held"},
		{name: "escalate of the name, by POST", may: only{verb: "escalate", resource: "roles", name: "r"}, rules: rule("*"), post: true, refused: "not currently held"},
		{name: "bind is not escalate", may: only{verb: "bind", resource: "roles"}, rules: rule("get"), refused: "not currently held"},
		{name: "aggregation", held: rule("get"), rules: rule("get"), aggregated: true, refused: "must have cluster-admin privileges to use the aggregationRule"},
		{name: "aggregation by admin", held: fullAuthority, rules: rule("get"), aggregated: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := New(registry.Config{RoleRules: held(tc.held), Authorizer: tc.may, Stores: registry.NewStores()})
			ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u", Groups: tc.groups})
			info := &genericapirequest.RequestInfo{Name: "r"}
			if tc.post {
				info.Name = ""
			}
			ctx = genericapirequest.WithRequestInfo(ctx, info)
			check(t, c.Role(ctx, "roles", "ns", "r", tc.rules, tc.aggregated), tc.refused)
		})
	}
}

func check(t *testing.T, err error, refused string) {
	t.Helper()
	if refused == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refused) {
		t.Errorf("got %v, want forbidden because of %s", err, refused)
	}
}

func TestNoUser(t *testing.T) {
	c := New(registry.Config{RoleRules: held(nil), Stores: registry.NewStores()})
	var status apierrors.APIStatus
	if err := c.Role(t.Context(), "roles", "ns", "r", nil, false); !errors.As(err, &status) {
		t.Errorf("a request of nobody: %v, want an error", err)
	}
	if err := New(registry.Config{}).Role(t.Context(), "roles", "ns", "r", rule("*"), false); err != nil {
		t.Errorf("without RBAC: %v", err)
	}
}

func TestBinding(t *testing.T) {
	ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u"})
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}
	may := New(registry.Config{RoleRules: held(nil), Authorizer: only{verb: "bind", resource: "clusterroles"}, Stores: registry.NewStores()})
	if err := may.Binding(ctx, "rolebindings", "ns", "b", ref); err != nil {
		t.Errorf("refused although the user may bind: %v", err)
	}
	// What cannot be read cannot be granted.
	unknown := New(registry.Config{RoleRules: held(fullAuthority), Authorizer: only{verb: "escalate", resource: "clusterroles"}, Stores: registry.NewStores()})
	if err := unknown.Binding(ctx, "rolebindings", "ns", "b", ref); err == nil {
		t.Error("a role that cannot be read was bound")
	}
}

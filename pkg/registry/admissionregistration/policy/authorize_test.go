// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/policy"
)

// question is what the authorizer was asked.
type question struct{ Verb, Group, Version, Resource, Namespace, Name string }

// config denies everything and keeps what was asked.
func config(asked *[]question) registry.Config {
	deny := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		*asked = append(*asked, question{a.GetVerb(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetNamespace(), a.GetName()})
		return authorizer.DecisionNoOpinion, "", nil
	})
	served := &metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
		{Name: "deployments/scale", Kind: "Deployment", Group: "autoscaling"}, {Name: "deployments", Kind: "Deployment"},
	}}
	return registry.Config{Authorizer: deny, Discovery: &fake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{served}}}}
}

func as(groups ...string) context.Context {
	return genericapirequest.WithUser(context.Background(), &user.DefaultInfo{Name: "u", Groups: groups})
}

func TestAuthorizeKind(t *testing.T) {
	deployment := &admissionv1.ParamKind{APIVersion: "apps/v1", Kind: "Deployment"}
	for name, tc := range map[string]struct {
		ctx       context.Context
		kind, old *admissionv1.ParamKind
		asked     []question
	}{
		"no parameters": {ctx: as()},
		"unchanged":     {ctx: as(), kind: deployment, old: &admissionv1.ParamKind{APIVersion: "apps/v1", Kind: "Deployment"}},
		"superuser":     {ctx: as(user.SystemPrivilegedGroup), kind: deployment},
		"known kind":    {ctx: as(), kind: deployment, asked: []question{{"get", "apps", "v1", "deployments", "*", "*"}}},
		"unknown kind":  {ctx: as(), kind: &admissionv1.ParamKind{APIVersion: "apps/v1", Kind: "X"}, asked: []question{{"get", "apps", "v1", "*", "*", "*"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []question
			err := policy.AuthorizeKind(tc.ctx, config(&asked), tc.kind, tc.old)
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if (err != nil) != (len(tc.asked) > 0) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestAuthorizeRef(t *testing.T) {
	found := func() (*admissionv1.ParamKind, error) {
		return &admissionv1.ParamKind{APIVersion: "apps/v1", Kind: "Deployment"}, nil
	}
	missing := func() (*admissionv1.ParamKind, error) { return nil, errors.New("no such policy") }
	for name, tc := range map[string]struct {
		ref    *admissionv1.ParamRef
		kindOf func() (*admissionv1.ParamKind, error)
		asked  []question
	}{
		"no parameters": {kindOf: found},
		"by name":       {ref: &admissionv1.ParamRef{Name: "n", Namespace: "ns"}, kindOf: found, asked: []question{{"get", "apps", "v1", "deployments", "ns", "n"}}},
		"by selector":   {ref: &admissionv1.ParamRef{Selector: &metav1.LabelSelector{}}, kindOf: found, asked: []question{{"list", "apps", "v1", "deployments", "", ""}}},
		"no policy":     {ref: &admissionv1.ParamRef{Name: "n"}, kindOf: missing, asked: []question{{"get", "*", "*", "*", "", "n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []question
			err := policy.AuthorizeRef(as(), config(&asked), tc.ref, "p", tc.kindOf)
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if (err != nil) != (len(tc.asked) > 0) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

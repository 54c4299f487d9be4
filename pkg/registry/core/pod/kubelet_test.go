// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func TestAuthorizeCreate(t *testing.T) {
	only := func(verb string) authorizer.Authorizer {
		return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() == verb && a.GetSubresource() == "exec" && a.GetName() == "p" && a.GetUser().GetName() == "u" {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
	}
	tests := []struct {
		name    string
		verb    string // of the request
		allowed string // the verb that the user may use
		denied  bool
	}{
		{name: "POST was authorized already", verb: "create", allowed: "none"},
		{name: "GET of somebody who may create", verb: "get", allowed: "create"},
		{name: "GET of somebody who may only get", verb: "get", allowed: "get", denied: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u"})
			ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
				IsResourceRequest: true, Verb: tc.verb, Namespace: "d", Resource: "pods", Subresource: "exec", Name: "p",
			})
			err := kubelet{authorizer: only(tc.allowed)}.authorizeCreate(ctx)
			if tc.denied != apierrors.IsForbidden(err) || !tc.denied && err != nil {
				t.Errorf("got %v, denied should be %v", err, tc.denied)
			}
		})
	}
}

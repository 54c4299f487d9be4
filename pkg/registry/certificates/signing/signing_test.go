// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// rule is an authorizer that allows one name, and fails on another.
type rule struct{ name, broken string }

func (r rule) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch {
	case a.GetAPIGroup() != "certificates.k8s.io" || a.GetResource() != "signers" || a.GetVerb() != "sign":
		return authorizer.DecisionDeny, "", nil
	case a.GetName() == r.broken:
		return authorizer.DecisionAllow, "", errors.New("broken")
	case a.GetName() == r.name:
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func TestAllows(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule rule
		verb string
		want bool
	}{
		{"by name", rule{name: "example.com/s"}, "sign", true},
		{"by domain", rule{name: "example.com/*"}, "sign", true},
		{"by domain after an error", rule{name: "example.com/*", broken: "example.com/s"}, "sign", true},
		{"another signer", rule{name: "example.com/t"}, "sign", false},
		{"another verb", rule{name: "example.com/s"}, "approve", false},
		{"an error", rule{broken: "example.com/s"}, "sign", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Allows(context.Background(), tc.rule, &user.DefaultInfo{Name: "u"}, tc.verb, "example.com/s"); got != tc.want {
				t.Errorf("allowed = %v, want %v", got, tc.want)
			}
		})
	}
}

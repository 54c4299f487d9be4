// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package admissiontest

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Rules is an authorizer that allows what is in it, each as "verb resource name".
type Rules map[string]bool

var _ authorizer.UnconditionalAuthorizer = Rules{}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r Rules) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if r[a.GetVerb()+" "+a.GetResource()+" "+a.GetName()] {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

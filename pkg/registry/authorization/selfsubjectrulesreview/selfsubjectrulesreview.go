// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfsubjectrulesreview lists what the asking user may do in a namespace (kubectl auth can-i --list). Touch it
// when the review gets another part.
package selfsubjectrulesreview

import (
	"context"
	"errors"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/review"
)

// Resource describes selfsubjectrulesreviews.
var Resource = registry.Virtual{
	Kind:  authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
	Name:  "selfsubjectrulesreviews",
	Build: build,
}

func build(c registry.Config) (rest.Storage, error) {
	return &review.REST[*authorizationv1.SelfSubjectRulesReview]{
		Singular: "selfsubjectrulesreview",
		Empty:    func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} },
		Validate: func(_ context.Context, r *authorizationv1.SelfSubjectRulesReview) error {
			if r.Spec.Namespace == "" {
				return apierrors.NewBadRequest("no namespace on request")
			}
			return nil
		},
		Answer: func(ctx context.Context, r *authorizationv1.SelfSubjectRulesReview) error {
			u, ok := genericapirequest.UserFrom(ctx)
			if !ok {
				return apierrors.NewBadRequest("no user present on request")
			}
			namespace := r.Spec.Namespace
			*r = authorizationv1.SelfSubjectRulesReview{} // upstream's answer does not repeat the question
			if c.RuleResolver == nil {
				r.Status = status(nil, nil, true, errors.New("the authorizers of this server cannot list rules"))
				return nil
			}
			resources, paths, incomplete, err := c.RuleResolver.RulesFor(ctx, u, namespace)
			r.Status = status(resources, paths, incomplete, err)
			return nil
		},
	}, nil
}

// status keeps its lists from being null, since clients need not expect that.
func status(resources []authorizer.ResourceRuleInfo, paths []authorizer.NonResourceRuleInfo, incomplete bool, err error) authorizationv1.SubjectRulesReviewStatus {
	s := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{},
		Incomplete:       incomplete,
	}
	for _, r := range resources {
		s.ResourceRules = append(s.ResourceRules, authorizationv1.ResourceRule{
			Verbs: r.GetVerbs(), APIGroups: r.GetAPIGroups(), Resources: r.GetResources(), ResourceNames: r.GetResourceNames(),
		})
	}
	for _, r := range paths {
		s.NonResourceRules = append(s.NonResourceRules, authorizationv1.NonResourceRule{Verbs: r.GetVerbs(), NonResourceURLs: r.GetNonResourceURLs()})
	}
	if err != nil {
		s.EvaluationError = err.Error()
	}
	return s
}

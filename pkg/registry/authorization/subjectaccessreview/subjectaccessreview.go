// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package subjectaccessreview answers whether some user may do something; servers that delegate authorization ask it.
// Touch it when the review gets another part.
package subjectaccessreview

import (
	"context"
	"errors"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/authorization/access"
	"minik8s.io/minik8s/pkg/registry/review"
)

var kind = authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview")

// Resource describes subjectaccessreviews.
var Resource = registry.Virtual{
	Kind:  kind,
	Name:  "subjectaccessreviews",
	Build: build,
}

func build(c registry.Config) (rest.Storage, error) {
	if c.Authorizer == nil {
		return nil, errors.New("access reviews need an authorizer")
	}
	return &review.REST[*authorizationv1.SubjectAccessReview]{
		Singular: "subjectaccessreview",
		Empty:    func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
		Validate: validate,
		Answer: func(ctx context.Context, r *authorizationv1.SubjectAccessReview) error {
			r.Status = access.Decide(ctx, c.Authorizer, access.Subject(r.Spec), access.Question{Resource: r.Spec.ResourceAttributes, NonResource: r.Spec.NonResourceAttributes})
			return nil
		},
	}, nil
}

func validate(_ context.Context, r *authorizationv1.SubjectAccessReview) error {
	errs := append(access.ValidateSubject(r.Spec), access.ValidateMetadata(r.ObjectMeta, "")...)
	if len(errs) > 0 {
		return access.Invalid(errs)
	}
	return nil
}

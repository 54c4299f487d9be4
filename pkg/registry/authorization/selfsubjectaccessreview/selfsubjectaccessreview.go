// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfsubjectaccessreview answers whether the asking user may do something (kubectl auth can-i). Touch it when the
// review gets another part.
package selfsubjectaccessreview

import (
	"context"
	"errors"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/authorization/access"
	"minik8s.io/minik8s/pkg/registry/review"
)

var kind = authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview")

// Resource describes selfsubjectaccessreviews.
var Resource = registry.Virtual{
	Kind:  kind,
	Name:  "selfsubjectaccessreviews",
	Build: build,
}

func build(c registry.Config) (rest.Storage, error) {
	if c.Authorizer == nil {
		return nil, errors.New("access reviews need an authorizer")
	}
	return &review.REST[*authorizationv1.SelfSubjectAccessReview]{
		Singular: "selfsubjectaccessreview",
		Empty:    func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
		Validate: validate,
		Answer: func(ctx context.Context, r *authorizationv1.SelfSubjectAccessReview) error {
			u, ok := genericapirequest.UserFrom(ctx)
			if !ok {
				return apierrors.NewBadRequest("no user present on request")
			}
			r.Status = access.Decide(ctx, c.Authorizer, u, access.Question{Resource: r.Spec.ResourceAttributes, NonResource: r.Spec.NonResourceAttributes})
			return nil
		},
	}, nil
}

func validate(_ context.Context, r *authorizationv1.SelfSubjectAccessReview) error {
	errs := access.ValidateQuestion(access.Question{Resource: r.Spec.ResourceAttributes, NonResource: r.Spec.NonResourceAttributes}, field.NewPath("spec"))
	errs = append(errs, access.ValidateMetadata(r.ObjectMeta, "")...)
	if len(errs) > 0 {
		return access.Invalid(errs)
	}
	return nil
}

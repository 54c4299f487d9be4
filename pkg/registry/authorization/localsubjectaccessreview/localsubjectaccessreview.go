// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package localsubjectaccessreview answers whether some user may do something in one namespace, so that the right to ask
// can be given for a namespace only. Touch it when the review gets another part.
package localsubjectaccessreview

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/authorization/access"
	"minik8s.io/minik8s/pkg/registry/review"
)

var kind = authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview")

// Resource describes localsubjectaccessreviews.
var Resource = registry.Virtual{
	Kind:       kind,
	Name:       "localsubjectaccessreviews",
	Namespaced: true,
	Build:      build,
}

func build(c registry.Config) (rest.Storage, error) {
	if c.Authorizer == nil {
		return nil, errors.New("access reviews need an authorizer")
	}
	return &review.REST[*authorizationv1.LocalSubjectAccessReview]{
		Singular:   "localsubjectaccessreview",
		Namespaced: true,
		Empty:      func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} },
		Validate:   validate,
		Answer: func(ctx context.Context, r *authorizationv1.LocalSubjectAccessReview) error {
			r.Status = access.Decide(ctx, c.Authorizer, access.Subject(r.Spec), access.Question{Resource: r.Spec.ResourceAttributes})
			return nil
		},
	}, nil
}

func validate(ctx context.Context, r *authorizationv1.LocalSubjectAccessReview) error {
	errs := append(access.ValidateSubject(r.Spec), access.ValidateMetadata(r.ObjectMeta, r.Namespace)...)
	path := field.NewPath("spec")
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), r.Spec.NonResourceAttributes, "disallowed on this kind of request"))
	}
	if len(errs) > 0 {
		return access.Invalid(errs)
	}
	namespace := genericapirequest.NamespaceValue(ctx)
	if namespace == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("namespace is required on this type: %v", namespace))
	}
	if namespace != r.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %v", namespace))
	}
	return nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfsubjectreview tells the asking user who they are (kubectl auth whoami). Touch it when the review gets another
// part.
package selfsubjectreview

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/review"
)

// Resource describes selfsubjectreviews.
var Resource = registry.Virtual{
	Kind:  authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
	Name:  "selfsubjectreviews",
	Build: func(registry.Config) (rest.Storage, error) { return storage(), nil },
}

func storage() rest.Storage {
	return &review.REST[*authenticationv1.SelfSubjectReview]{
		Singular: "selfsubjectreview",
		Empty:    func() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} },
		Answer: func(ctx context.Context, r *authenticationv1.SelfSubjectReview) error {
			u, ok := genericapirequest.UserFrom(ctx)
			if !ok {
				return apierrors.NewBadRequest("no user present on request")
			}
			extra := map[string]authenticationv1.ExtraValue{}
			for k, v := range u.GetExtra() {
				extra[k] = v
			}
			r.ObjectMeta = metav1.ObjectMeta{CreationTimestamp: metav1.Now()}
			r.Status = authenticationv1.SelfSubjectReviewStatus{
				UserInfo: authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra},
			}
			return nil
		},
	}
}

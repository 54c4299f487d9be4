// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package tokenreview answers whose token it is that a client holds; servers that delegate authentication ask it. Touch it
// when the review gets another part.
package tokenreview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/review"
)

// Resource describes tokenreviews.
var Resource = registry.Virtual{
	Kind:  authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
	Name:  "tokenreviews",
	Build: build,
}

func build(c registry.Config) (rest.Storage, error) {
	if c.Authenticator == nil {
		return nil, errors.New("token reviews need an authenticator")
	}
	return &review.REST[*authenticationv1.TokenReview]{
		Singular: "tokenreview",
		Empty:    func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
		Validate: validate,
		Answer: func(ctx context.Context, r *authenticationv1.TokenReview) error {
			answer(ctx, c.Authenticator, c.APIAudiences, r)
			return nil
		},
	}, nil
}

func validate(ctx context.Context, r *authenticationv1.TokenReview) error {
	if namespace := genericapirequest.NamespaceValue(ctx); namespace != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("namespace is not allowed on this type: %v", namespace))
	}
	if r.Spec.Token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	return nil
}

// answer asks the authenticator with a request that has nothing but the token, for the audiences asked or the API's own.
// answer overwrites what it knows of the status; as upstream, it leaves the rest of what the client has sent.
func answer(ctx context.Context, a authenticator.Request, api authenticator.Audiences, r *authenticationv1.TokenReview) {
	audiences := authenticator.Audiences(r.Spec.Audiences)
	if len(audiences) == 0 {
		audiences = api
	}
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	request := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{}, Header: http.Header{"Authorization": {"Bearer " + r.Spec.Token}},
	}).WithContext(ctx)

	response, ok, err := a.AuthenticateRequest(request)
	r.Status.Authenticated = ok
	if err != nil {
		r.Status.Error = err.Error()
	}
	if response == nil || response.User == nil {
		return
	}
	if len(audiences) > 0 && len(audiences.Intersect(response.Audiences)) == 0 {
		klog.FromContext(ctx).Error(nil, "An authenticator accepted a token without asking for its audience", "accepted", response.Audiences, "asked", audiences)
		r.Status = authenticationv1.TokenReviewStatus{Error: "internal error"}
		return
	}
	r.Status.User = info(response.User)
	r.Status.Audiences = response.Audiences
}

func info(u user.Info) authenticationv1.UserInfo {
	i := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	if extra := u.GetExtra(); len(extra) > 0 {
		i.Extra = map[string]authenticationv1.ExtraValue{}
		for k, v := range extra {
			i.Extra[k] = v
		}
	}
	return i
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tokenreview

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestAnswer(t *testing.T) {
	u := &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	info := authenticationv1.UserInfo{Username: "u", UID: "1", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	for _, tc := range []struct {
		name     string
		spec     authenticationv1.TokenReviewSpec
		response *authenticator.Response
		ok       bool
		err      error
		asked    authenticator.Audiences
		want     authenticationv1.TokenReviewStatus
	}{
		{name: "known, for the API", response: &authenticator.Response{User: u, Audiences: []string{"api"}}, ok: true, asked: []string{"api"},
			want: authenticationv1.TokenReviewStatus{Authenticated: true, User: info, Audiences: []string{"api"}}},
		{name: "known, for another", spec: authenticationv1.TokenReviewSpec{Audiences: []string{"a", "b"}}, response: &authenticator.Response{User: u, Audiences: []string{"b"}}, ok: true, asked: []string{"a", "b"},
			want: authenticationv1.TokenReviewStatus{Authenticated: true, User: info, Audiences: []string{"b"}}},
		{name: "unknown", asked: []string{"api"}},
		{name: "bad", err: errors.New("expired"), asked: []string{"api"}, want: authenticationv1.TokenReviewStatus{Error: "expired"}},
		{name: "an authenticator that does not look at audiences", response: &authenticator.Response{User: u}, ok: true, asked: []string{"api"},
			want: authenticationv1.TokenReviewStatus{Error: "internal error"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.Token = "secret"
			a := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
				if got := r.Header.Get("Authorization"); got != "Bearer secret" {
					t.Errorf("Authorization = %q", got)
				}
				asked, _ := authenticator.AudiencesFrom(r.Context())
				if diff := cmp.Diff(tc.asked, asked); diff != "" {
					t.Errorf("audiences (-want +got):\n%s", diff)
				}
				return tc.response, tc.ok, tc.err
			})
			r := &authenticationv1.TokenReview{Spec: tc.spec}
			answer(context.Background(), a, []string{"api"}, r)
			if diff := cmp.Diff(tc.want, r.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

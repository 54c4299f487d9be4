// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
)

func TestIssue_Lifetime(t *testing.T) {
	t.Parallel()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := &registry.BoundObject{Kind: "Pod", Name: "p", UID: "1"}
	const year = 365 * 24 * time.Hour
	for _, tc := range []struct {
		name      string
		exact     bool
		bound     *registry.BoundObject
		audiences []string
		seconds   int64
		want      time.Duration
	}{
		{"as a pod gets it by default", false, pod, nil, 3607, year},
		{"exact", true, pod, nil, 3607, 3607 * time.Second},
		{"another time", false, pod, nil, 3600, time.Hour},
		{"another audience", false, pod, []string{"api", "vault"}, 3607, 3607 * time.Second},
		{"not of a pod", false, nil, nil, 3607, 3607 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tokens, err := New(Config{Issuer: "https://i", Key: key, Audiences: []string{"api"}, ExactLifetime: tc.exact, Clock: clocktesting.NewFakePassiveClock(now)})
			if err != nil {
				t.Fatal(err)
			}
			raw, expires, err := tokens.Issue(t.Context(), types.NamespacedName{Namespace: "n", Name: "a"}, "u", tc.bound, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(tc.seconds), Audiences: tc.audiences})
			if err != nil {
				t.Fatal(err)
			}
			if asked := now.Add(time.Duration(tc.seconds) * time.Second); !expires.Time.Equal(asked) {
				t.Errorf("is said to expire at %v, want %v", expires, asked)
			}
			c := &claims{}
			if _, _, err := jwt.NewParser().ParseUnverified(raw, c); err != nil {
				t.Fatal(err)
			}
			if got := c.ExpiresAt.Sub(now); got != tc.want {
				t.Errorf("lasts %v, want %v", got, tc.want)
			}
			if warns := c.Kubernetes.WarnAfter != nil; warns != (tc.want == year) {
				t.Errorf("has a time to warn after: %v", warns)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/pki"
)

// FuzzAuthenticateToken reads tokens, and none is accepted: even that which is signed has expired.
func FuzzAuthenticateToken(f *testing.F) {
	key, err := pki.NewKey()
	if err != nil {
		f.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	tokens, err := New(Config{Issuer: "https://i", Key: key, Audiences: []string{"api"}, Clock: clock})
	if err != nil {
		f.Fatal(err)
	}
	raw, _, err := tokens.Issue(f.Context(), types.NamespacedName{Namespace: "n", Name: "a"}, "u", nil, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600))})
	if err != nil {
		f.Fatal(err)
	}
	clock.SetTime(now.Add(48 * time.Hour))
	for _, s := range []string{
		raw, raw[:len(raw)-1], "a.b.c", "", "..", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2kifQ.", "eyJhbGciOjF9.e30.x", "e30.e30.e30", "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJodHRwczovL2kiLCJleHAiOjFlOTk5fQ.AAAA", "eyJhbGciOiJFUzI1NiIsImtpZCI6WzFdfQ.eyJhdWQiOnt9fQ.AAAA",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, ok, _ := tokens.AuthenticateToken(t.Context(), s); ok {
			t.Errorf("%q is accepted as %v", s, r.User)
		}
	})
}

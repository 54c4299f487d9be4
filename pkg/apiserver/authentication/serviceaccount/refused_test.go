// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/pki"
)

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestAuthenticateToken_Refused: why a token is refused is told in upstream's words, which TokenReviews show.
func TestAuthenticateToken_Refused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tokens := func() *Tokens {
		key, err := pki.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		made, err := New(Config{Issuer: "https://i", Key: key, Audiences: []string{"api"}, Clock: clocktesting.NewFakePassiveClock(now)})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	one, other := tokens(), tokens()
	raw, _, err := one.Issue(t.Context(), types.NamespacedName{Namespace: "n", Name: "a"}, "u", nil, authenticationv1.TokenRequestSpec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		by   *Tokens
		at   time.Duration
		want string
	}{
		{"after its end", one, 2 * time.Hour, "service account token has expired"},
		{"before its beginning", one, -time.Hour, "service account token is not valid yet"},
		{"of another key", other, 0, "go-jose/go-jose: error in cryptographic primitive"},
	} {
		tc.by.config.Clock = clocktesting.NewFakePassiveClock(now.Add(tc.at))
		if _, _, err := tc.by.AuthenticateToken(t.Context(), raw); message(err) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pod := func(uid types.UID, age time.Duration) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: uid}}
		if age != 0 {
			p.DeletionTimestamp = &metav1.Time{Time: now.Add(-age)}
		}
		return p
	}
	for _, tc := range []struct {
		name           string
		pod            *corev1.Pod
		bound, account string
	}{
		{"there", pod("1", 0), "", ""},
		{"being deleted", pod("1", time.Second), "", ""},
		{"deleted", pod("1", time.Hour), "service account token has been invalidated", "service account ns/x has been deleted"},
		{"another of the name", pod("2", 0), "pod UID (2) does not match service account pod ref claim (1)", "service account UID (2) does not match claim (1)"},
	} {
		r := ref{Name: "x", UID: "1"}
		if err := isBound(tc.pod, "pod", r, now); message(err) != tc.bound {
			t.Errorf("bound to one that is %s: %v, want %q", tc.name, err, tc.bound)
		}
		if err := isAccount(tc.pod, private{Namespace: "ns", ServiceAccount: r}, now); message(err) != tc.account {
			t.Errorf("account that is %s: %v, want %q", tc.name, err, tc.account)
		}
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package bootstraptoken

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAuthenticateToken(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	valid := func(change ...func(*corev1.Secret)) *corev1.Secret {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
			Type:       "bootstrap.kubernetes.io/token",
			Data: map[string][]byte{
				"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
				"auth-extra-groups": []byte("system:bootstrappers:workers"),
			},
		}
		for _, f := range change {
			f(s)
		}
		return s
	}
	set := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	for _, tc := range []struct {
		name   string
		token  string
		secret *corev1.Secret
		want   []string
	}{
		{"valid", "abcdef.0123456789abcdef", valid(), []string{"system:bootstrappers", "system:bootstrappers:workers"}},
		{"not yet expired", "abcdef.0123456789abcdef", valid(set("expiration", now.Add(time.Second).Format(time.RFC3339))), []string{"system:bootstrappers", "system:bootstrappers:workers"}},
		{"expired", "abcdef.0123456789abcdef", valid(set("expiration", now.Add(-time.Second).Format(time.RFC3339))), nil},
		{"another secret", "abcdef.0123456789abcdee", valid(), nil},
		{"another id", "abcdee.0123456789abcdef", valid(), nil},
		{"another id inside", "abcdef.0123456789abcdef", valid(set("token-id", "abcdee")), nil},
		{"not a token", "abcdef", valid(), nil},
		{"not for authentication", "abcdef.0123456789abcdef", valid(set("usage-bootstrap-authentication", "false")), nil},
		{"a group that is not for bootstrapping", "abcdef.0123456789abcdef", valid(set("auth-extra-groups", "system:masters")), nil},
		{"another type", "abcdef.0123456789abcdef", valid(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), nil},
		{"being deleted", "abcdef.0123456789abcdef", valid(func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ix := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := ix.Add(tc.secret); err != nil {
				t.Fatal(err)
			}
			a := &Authenticator{Secrets: corelisters.NewSecretLister(ix).Secrets("kube-system"), Clock: clocktesting.NewFakePassiveClock(now)}
			got, ok, err := a.AuthenticateToken(t.Context(), tc.token)
			if err != nil {
				t.Fatal(err)
			}
			if ok != (tc.want != nil) {
				t.Fatalf("accepted: %v, want groups %v", ok, tc.want)
			}
			if !ok {
				return
			}
			if got.User.GetName() != "system:bootstrap:abcdef" {
				t.Errorf("user is %q", got.User.GetName())
			}
			if diff := cmp.Diff(tc.want, got.User.GetGroups()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

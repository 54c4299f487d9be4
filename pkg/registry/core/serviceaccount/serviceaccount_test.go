// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, Resource, registrytest.Case[*corev1.ServiceAccount]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.ServiceAccount {
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}, AutomountServiceAccountToken: new(true)}
		},
		Update: func(a *corev1.ServiceAccount) { a.Secrets = []corev1.ObjectReference{{Name: "s"}} },
		Invalid: []registrytest.Invalid[*corev1.ServiceAccount]{
			{Name: "bad name", Mutate: func(a *corev1.ServiceAccount) { a.Name = "a_b" }, Field: "metadata.name"},
		},
		Row: []any{"a"},
	})
}

func TestComplete(t *testing.T) {
	account := types.NamespacedName{Namespace: "ns", Name: "a"}
	tests := []struct {
		name  string
		in    authenticationv1.TokenRequest
		want  authenticationv1.TokenRequest
		field string
	}{
		{
			name: "empty",
			want: authenticationv1.TokenRequest{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
				Spec:       authenticationv1.TokenRequestSpec{Audiences: []string{"api"}, ExpirationSeconds: ptr.To[int64](3600)},
			},
		},
		{
			name: "kept, status dropped",
			in: authenticationv1.TokenRequest{
				Spec:   authenticationv1.TokenRequestSpec{Audiences: []string{"x"}, ExpirationSeconds: ptr.To[int64](900)},
				Status: authenticationv1.TokenRequestStatus{Token: "forged"},
			},
			want: authenticationv1.TokenRequest{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
				Spec:       authenticationv1.TokenRequestSpec{Audiences: []string{"x"}, ExpirationSeconds: ptr.To[int64](900)},
			},
		},
		{name: "other name", in: authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, field: "metadata.name"},
		{name: "other namespace", in: authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "b"}}, field: "metadata.namespace"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.in
			errs := complete(&got, account, []string{"api"})
			if tc.field != "" {
				if len(errs) != 1 || errs[0].Field != tc.field {
					t.Fatalf("errors = %v, want one of %s", errs, tc.field)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); len(errs) > 0 || diff != "" {
				t.Errorf("errors %v, diff (-want +got):\n%s", errs, diff)
			}
		})
	}
}

func TestValidateRequest(t *testing.T) {
	for seconds, valid := range map[int64]bool{599: false, 600: true, 1 << 32: true, 1<<32 + 1: false} {
		r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
		if errs := validateRequest(r); (len(errs) == 0) != valid {
			t.Errorf("%d seconds: %v, want valid=%v", seconds, errs, valid)
		}
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/secret"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

// issuer tells in its tokens what it was asked for.
type issuer struct{ expires metav1.Time }

func (i issuer) Issue(_ context.Context, account types.NamespacedName, uid types.UID, bound *registry.BoundObject, spec authenticationv1.TokenRequestSpec) (string, metav1.Time, error) {
	token := account.String() + " " + string(uid) + " " + strings.Join(spec.Audiences, ",")
	if bound != nil {
		token += " " + bound.Kind + " " + bound.Name + " " + string(bound.UID)
	}
	return token, i.expires, nil
}

func TestToken(t *testing.T) {
	expires := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t,
		registry.Config{Tokens: issuer{expires}},
		registry.Group{
			AddToScheme: func(scheme *runtime.Scheme) error {
				internal := authenticationv1.SchemeGroupVersion
				internal.Version = runtime.APIVersionInternal
				scheme.AddKnownTypes(internal, &authenticationv1.TokenRequest{})
				if err := authenticationv1.AddToScheme(scheme); err != nil {
					return err
				}
				return corev1.AddToScheme(scheme)
			},
			Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{Resource, secret.Resource}}},
		})).CoreV1()
	ctx := t.Context()
	account, err := client.ServiceAccounts("ns").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.Secrets("ns").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	prefix := "ns/a " + string(account.UID) + " api"
	ref := func(kind, name string, uid types.UID) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: uid}
	}
	tests := []struct {
		name    string
		account string
		spec    authenticationv1.TokenRequestSpec
		want    string
		refused func(error) bool
	}{
		{name: "plain", account: "a", want: prefix},
		{name: "bound", account: "a", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref("Secret", "s", s.UID)}, want: prefix + " Secret s " + string(s.UID)},
		{name: "bound to what was replaced", account: "a", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref("Secret", "s", "old")}, refused: apierrors.IsConflict},
		{name: "bound to nothing", account: "a", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref("Secret", "t", "")}, refused: apierrors.IsNotFound},
		{name: "bound to a kind that cannot be", account: "a", spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref("ConfigMap", "t", "")}, refused: apierrors.IsBadRequest},
		{
			name: "bound to webhooks", account: "a",
			spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration", Name: "w"},
				Attestations:   map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"apps"}},
			},
			refused: func(err error) bool {
				return apierrors.IsBadRequest(err) && err.Error() == "cannot bind token to object of type admissionregistration.k8s.io/v1, Kind=ValidatingWebhookConfiguration (feature gate APIServerWebhookAuthenticationToken is disabled)"
			},
		},
		{
			name: "attested without a webhook", account: "a",
			spec:    authenticationv1.TokenRequestSpec{Attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"apps"}}},
			refused: apierrors.IsInvalid,
		},
		{name: "too short", account: "a", spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](10)}, refused: apierrors.IsInvalid},
		{name: "no account", account: "b", refused: apierrors.IsNotFound},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.Audiences = []string{"api"}
			got, err := client.ServiceAccounts("ns").CreateToken(ctx, tc.account, &authenticationv1.TokenRequest{Spec: tc.spec}, metav1.CreateOptions{})
			if tc.refused != nil {
				if !tc.refused(err) {
					t.Errorf("got %v, want another error", err)
				}
				return
			}
			if err != nil || got.Status.Token != tc.want || !got.Status.ExpirationTimestamp.Equal(&expires) || *got.Spec.ExpirationSeconds != 3600 {
				t.Errorf("got %+v, %v, want token %q", got, err, tc.want)
			}
		})
	}
}

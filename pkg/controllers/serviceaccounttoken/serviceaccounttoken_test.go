// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccounttoken

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/pki"
)

func signer(t *testing.T) *Signer {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func account(uid types.UID, secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: uid}}
	for _, name := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
	}
	return a
}

func secret(kind corev1.SecretType, data map[string][]byte, annotations map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "token", UID: "s", Annotations: annotations}, Type: kind, Data: data}
}

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "token"}}

func TestSigner(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, key := range map[string][]byte{
		"RS256": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}),
		"ES256": ecKey,
	} {
		t.Run(algorithm, func(t *testing.T) {
			s, err := NewSigner(key)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := s.Token(account("u"), "token")
			if err != nil {
				t.Fatal(err)
			}
			got := jwt.MapClaims{}
			token, err := jwt.ParseWithClaims(raw, got, func(*jwt.Token) (any, error) { return s.key.Public(), nil })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]any{"alg": algorithm, "kid": s.keyID}, token.Header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			want := jwt.MapClaims{
				"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:ns:robot",
				"kubernetes.io/serviceaccount/namespace": "ns", "kubernetes.io/serviceaccount/secret.name": "token",
				"kubernetes.io/serviceaccount/service-account.name": "robot", "kubernetes.io/serviceaccount/service-account.uid": "u",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := NewSigner([]byte("nonsense")); err == nil {
		t.Error("nonsense is taken for a key")
	}
}

func TestReconcile_Fills(t *testing.T) {
	s := signer(t)
	of := map[string]string{corev1.ServiceAccountNameKey: "robot"}
	for _, tt := range []struct {
		name      string
		secret    *corev1.Secret
		wantToken string // empty: a new one
	}{
		{"empty", secret(corev1.SecretTypeServiceAccountToken, nil, of), ""},
		{"with another CA", secret(corev1.SecretTypeServiceAccountToken, map[string][]byte{
			"token": []byte("T"), "namespace": []byte("ns"), "ca.crt": []byte("old"),
		}, map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: "u"}), "T"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{account("u"), tt.secret},
				Request: request,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Live: controllertest.Live(c), Tokens: s, RootCA: []byte("PEM")}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var got corev1.Secret
					if err := c.Get(ctx, request.NamespacedName, &got); err != nil {
						return err
					}
					token := string(got.Data["token"])
					if string(got.Data["ca.crt"]) != "PEM" || string(got.Data["namespace"]) != "ns" || got.Annotations[corev1.ServiceAccountUIDKey] != "u" {
						return fmt.Errorf("secret has %q and annotations %v", got.Data, got.Annotations)
					}
					if token == "" || tt.wantToken != "" && token != tt.wantToken {
						return fmt.Errorf("token is %q", token)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_AccountGone(t *testing.T) {
	s := signer(t)
	of := func(uid string) map[string]string {
		return map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: uid}
	}
	for name, objects := range map[string][]client.Object{
		"no such account": {secret(corev1.SecretTypeServiceAccountToken, nil, of("u"))},
		"made anew":       {account("new"), secret(corev1.SecretTypeServiceAccountToken, nil, of("u"))},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: objects,
				Request: request,
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Live: controllertest.Live(c), Tokens: s, RootCA: []byte("PEM")}
				},
				Want: func(ctx context.Context, c client.Client) error {
					if err := c.Get(ctx, request.NamespacedName, &corev1.Secret{}); !apierrors.IsNotFound(err) {
						return errors.Join(errors.New("the secret is not gone"), err)
					}
					return nil
				},
			})
		})
	}
}

// TestReconcile_StaleCache lets the cache miss the account: its tokens must live.
func TestReconcile_StaleCache(t *testing.T) {
	token := secret(corev1.SecretTypeServiceAccountToken, nil, map[string]string{corev1.ServiceAccountNameKey: "robot"})
	stale, live := fake.NewClientBuilder().WithObjects(token).Build(), fake.NewClientBuilder().WithObjects(account("u")).Build()
	r := &Reconciler{Client: stale, Live: live, Tokens: signer(t)}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var got corev1.Secret
	if err := stale.Get(t.Context(), request.NamespacedName, &got); err != nil || len(got.Data["token"]) == 0 {
		t.Errorf("secret is %v, %v", got.Data, err)
	}
}

func TestReconcile_SecretGone(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{account("u", "token", "other")},
		Request: request,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Live: controllertest.Live(c)}
		},
		Want: func(ctx context.Context, c client.Client) error {
			got := account("")
			if err := c.Get(ctx, client.ObjectKeyFromObject(got), got); err != nil {
				return err
			}
			if len(got.Secrets) != 1 || got.Secrets[0].Name != "other" {
				return fmt.Errorf("account names %v", got.Secrets)
			}
			return nil
		},
	})
}

func TestReconcile_OtherSecrets(t *testing.T) {
	opaque := secret(corev1.SecretTypeOpaque, nil, map[string]string{corev1.ServiceAccountNameKey: "robot"})
	live := fake.NewClientBuilder().WithObjects(account("u", "token"), opaque).Build()
	cached := fake.NewClientBuilder().WithObjects(account("u", "token")).Build() // which holds token secrets only
	for name, c := range map[string]client.Client{"seen": live, "not seen": cached} {
		r := &Reconciler{Client: c, Live: live}
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		var got corev1.ServiceAccount
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "robot"}, &got); err != nil || len(got.Secrets) != 1 {
			t.Errorf("%s: account names %v, %v", name, got.Secrets, err)
		}
	}
}

func TestSecretsOf(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(
		secret(corev1.SecretTypeServiceAccountToken, nil, map[string]string{corev1.ServiceAccountNameKey: "robot"}),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}},
	).Build()
	if diff := cmp.Diff([]reconcile.Request{request}, secretsOf(c)(t.Context(), account("u"))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/emicklei/go-restful/v3"
	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
)

// TestDiscovery_KeysVerifyTokens plays a stranger who knows nothing but the documents.
func TestDiscovery_KeysVerifyTokens(t *testing.T) {
	t.Parallel()
	private, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := New(Config{Issuer: "https://issuer", Key: private, Stores: registry.NewStores()})
	if err != nil {
		t.Fatal(err)
	}
	raw, _, err := tokens.Issue(context.Background(), types.NamespacedName{Namespace: "ns", Name: "sa"}, "u", nil, authenticationv1.TokenRequestSpec{Audiences: []string{"me"}})
	if err != nil {
		t.Fatal(err)
	}
	services, err := tokens.Discovery("https://issuer" + KeysPath)
	if err != nil {
		t.Fatal(err)
	}
	handler := restful.NewContainer()
	for _, ws := range services {
		handler.Add(ws)
	}
	var about configuration
	get(t, handler, ConfigurationPath, &about)
	if about.Issuer != "https://issuer" || about.JWKSURI != "https://issuer"+KeysPath || len(about.Algorithms) != 1 || about.Algorithms[0] != "ES256" {
		t.Errorf("configuration is %+v", about)
	}
	var set struct{ Keys []key }
	get(t, handler, KeysPath, &set)
	_, err = jwt.Parse(raw, func(token *jwt.Token) (any, error) {
		for _, k := range set.Keys {
			if k.ID == token.Header["kid"] {
				return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, number(t, k.X), number(t, k.Y)))
			}
		}
		t.Fatalf("no key %v among %+v", token.Header["kid"], set.Keys)
		return nil, nil
	}, jwt.WithIssuer(about.Issuer), jwt.WithAudience("me"))
	if err != nil {
		t.Errorf("verifying with the published key: %v", err)
	}
}

func number(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func get(t *testing.T, handler http.Handler, path string, into any) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

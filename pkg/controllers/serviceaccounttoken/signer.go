// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccounttoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/pki"
)

// issuer is how the API server knows these tokens from those of the TokenRequest API.
const issuer = "kubernetes/serviceaccount"

// claims are those of a token in a Secret: it is bound to both the Secret and the account, and never expires.
type claims struct {
	jwt.RegisteredClaims
	Namespace string `json:"kubernetes.io/serviceaccount/namespace"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name"`
	Account   string `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID       string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// Signer makes tokens. Safe for concurrent use.
type Signer struct {
	key    crypto.Signer
	keyID  string
	method jwt.SigningMethod
}

// NewSigner reads a private key, PEM. RSA and ECDSA keys can sign tokens.
func NewSigner(key []byte) (*Signer, error) {
	private, err := pki.ParseKey(key)
	if err != nil {
		return nil, fmt.Errorf("reading the key that signs tokens: %w", err)
	}
	s := &Signer{key: private}
	switch public := private.Public().(type) {
	case *rsa.PublicKey:
		s.method = jwt.SigningMethodRS256
	case *ecdsa.PublicKey:
		s.method = map[int]jwt.SigningMethod{
			256: jwt.SigningMethodES256, 384: jwt.SigningMethodES384, 521: jwt.SigningMethodES512,
		}[public.Params().BitSize]
	}
	if s.method == nil {
		return nil, fmt.Errorf("a %T cannot sign tokens: use RSA or ECDSA", private)
	}
	// All who verify file the key under this hash.
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	sum := sha256.Sum256(der)
	s.keyID = base64.RawURLEncoding.EncodeToString(sum[:])
	return s, nil
}

// Token returns the token of an account that is kept in the Secret of that name.
func (s *Signer) Token(account *corev1.ServiceAccount, secret string) (string, error) {
	token := jwt.NewWithClaims(s.method, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		},
		Namespace: account.Namespace, Secret: secret, Account: account.Name, UID: string(account.UID),
	})
	// The header is upstream's: it does not say that a JWT is one.
	token.Header = map[string]any{"alg": s.method.Alg(), "kid": s.keyID}
	return token.SignedString(s.key)
}

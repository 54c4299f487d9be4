// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"

	"github.com/emicklei/go-restful/v3"
)

// Paths of the documents by which others verify tokens (OpenID Connect Discovery 1.0, KEP-1393).
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// configuration is the provider configuration, as far as upstream fills it in.
type configuration struct {
	Issuer        string   `json:"issuer"`
	JWKSURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// key is a JSON Web Key (RFC 7517) for verification.
type key struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Curve     string `json:"crv,omitempty"`
	Algorithm string `json:"alg"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
}

// Discovery returns the services of the documents. keysURL is where clients fetch KeysPath.
func (t *Tokens) Discovery(keysURL string) ([]*restful.WebService, error) {
	c := configuration{Issuer: t.config.Issuer, JWKSURI: keysURL, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}}
	set := struct {
		Keys []key `json:"keys"`
	}{Keys: []key{}}
	for _, id := range slices.Sorted(maps.Keys(t.keys)) {
		k, err := webKey(id, t.keys[id])
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, k)
		if !slices.Contains(c.Algorithms, k.Algorithm) {
			c.Algorithms = append(c.Algorithms, k.Algorithm)
		}
	}
	about, err := document(ConfigurationPath, restful.MIME_JSON, c,
		"get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'", "getServiceAccountIssuerOpenIDConfiguration")
	if err != nil {
		return nil, err
	}
	keys, err := document(KeysPath, "application/jwk-set+json", set,
		"get service account issuer OpenID JSON Web Key Set (contains public token verification keys)", "getServiceAccountIssuerOpenIDKeyset")
	if err != nil {
		return nil, err
	}
	return []*restful.WebService{about, keys}, nil
}

// document serves v at a path; doc and operation are what the API's own description says about it.
func document(path, contentType string, v any, doc, operation string) (*restful.WebService, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", path, err)
	}
	ws := new(restful.WebService).Path(path).Produces(contentType)
	return ws.Route(ws.GET("").Doc(doc).Operation(operation).Returns(http.StatusOK, "OK", "").To(func(_ *restful.Request, w *restful.Response) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.ResponseWriter.Write(data) // a client that has gone away does not need it
	})), nil
}

func webKey(id string, public any) (key, error) {
	method, err := methodOf(public)
	if err != nil {
		return key{}, err
	}
	k := key{Use: "sig", ID: id, Algorithm: method.Alg()}
	switch p := public.(type) {
	case *ecdsa.PublicKey:
		point, err := p.Bytes() // 4, x, y
		if err != nil {
			return key{}, fmt.Errorf("encoding public key %s: %w", id, err)
		}
		half := (len(point) - 1) / 2
		k.Type, k.Curve = "EC", p.Curve.Params().Name
		k.X, k.Y = encode(point[1:1+half]), encode(point[1+half:])
	case *rsa.PublicKey:
		k.Type, k.N, k.E = "RSA", encode(p.N.Bytes()), encode(big.NewInt(int64(p.E)).Bytes())
	}
	return k, nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

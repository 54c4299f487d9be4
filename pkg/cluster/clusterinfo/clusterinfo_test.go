// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"minik8s.io/minik8s/pkg/pki"
)

const token = "abcdef.0123456789abcdef"

func newCA(t *testing.T) (ca []byte, hash string) {
	t.Helper()
	made, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	if hash, err = Hash(made.Cert); err != nil {
		t.Fatal(err)
	}
	return made.Cert, hash
}

// signed is the content of a ConfigMap that token has signed.
func signed(t *testing.T, document, token string) map[string]string {
	t.Helper()
	id, secret, _ := strings.Cut(token, ".")
	signature, err := jws.ComputeDetachedSignature(document, id, secret)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{api.KubeConfigKey: document, api.JWSSignatureKeyPrefix + id: signature}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	ca, hash := newCA(t)
	_, other := newCA(t)
	info := Info{Server: "https://192.0.2.1:6443", CA: ca, About: []byte(`{"networking":{"podSubnet":"10.244.0.0/16"}}`)}
	document, err := info.Document()
	if err != nil {
		t.Fatal(err)
	}
	good := signed(t, document, token)
	forged := signed(t, document, token)
	forged[api.KubeConfigKey] = strings.Replace(document, "192.0.2.1", "192.0.2.9", 1)
	nothing := signed(t, "apiVersion: v1\nkind: Config\n", token)
	for _, tc := range []struct {
		name   string
		data   map[string]string
		token  string
		hashes []string
		want   string // of the error; "": none
	}{
		{"fine", good, token, []string{hash}, ""},
		{"one of two", good, token, []string{other, strings.ToUpper(hash)}, ""},
		{"another CA", good, token, []string{other}, "none of those given"},
		{"nothing pinned", good, token, nil, "none of those given"},
		{"another token", good, "zzzzzz.0123456789abcdef", []string{hash}, ErrNotSigned.Error()},
		{"another secret", good, "abcdef.fedcba9876543210", []string{hash}, "is invalid"},
		{"another text", forged, token, []string{hash}, "is invalid"},
		{"no cluster", nothing, token, []string{hash}, "names no cluster"},
		{"nothing there", nil, token, []string{hash}, ErrNotSigned.Error()},
		{"no token", good, "abcdef", []string{hash}, "of the form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Verify(tc.data, tc.token, tc.hashes)
			if tc.want == "" {
				if diff := cmp.Diff(info, got); err != nil || diff != "" {
					t.Errorf("error %v, difference:\n%s", err, diff)
				}
			} else if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Verify(nil, token, nil); !errors.Is(err, ErrNotSigned) {
		t.Errorf("error %v, want %v", err, ErrNotSigned)
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	ca, hash := newCA(t)
	cert, err := pki.ParseCertificate(ca)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	if want := "sha256:" + hex.EncodeToString(sum[:]); hash != want {
		t.Errorf("hash %s, want %s", hash, want)
	}
	for name, text := range map[string][]byte{"nothing": nil, "no certificate": []byte("x"), "two": append(append([]byte{}, ca...), ca...)} {
		if _, err := Hash(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := CheckHashes([]string{hash}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", strings.TrimPrefix(hash, "sha256:"), "md5:" + hash, hash[:len(hash)-2], hash[:len(hash)-1] + "x"} {
		if err := CheckHashes([]string{bad}); err == nil {
			t.Errorf("%q is taken for a hash", bad)
		}
	}
}

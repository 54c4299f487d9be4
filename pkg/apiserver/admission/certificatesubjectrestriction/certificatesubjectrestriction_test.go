// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesubjectrestriction

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	of := func(signer string, groups ...string) *certificatesv1.CertificateSigningRequest {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{Organization: groups}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		}}
	}
	rubbish := of(certificatesv1.KubeAPIServerClientSignerName)
	rubbish.Spec.Request = []byte("x")
	for _, tc := range []struct {
		name    string
		r       *certificatesv1.CertificateSigningRequest
		refused bool
	}{
		{"another group", of(certificatesv1.KubeAPIServerClientSignerName, "devs"), false},
		{"masters", of(certificatesv1.KubeAPIServerClientSignerName, "devs", "system:masters"), true},
		{"masters of another signer", of("example.com/s", "system:masters"), false},
		{"rubbish", rubbish, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := admissiontest.Request{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Object: tc.r}
			if err := admissiontest.Run(New(), r.Attributes()); (err != nil) != tc.refused {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigning

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	type csr = certificatesv1.CertificateSigningRequest
	of := func(signer string, mutate ...func(*csr)) *csr {
		r := &csr{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
		for _, m := range mutate {
			m(r)
		}
		return r
	}
	issued := func(r *csr) { r.Status.Certificate = []byte("x") }
	failed := func(r *csr) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed}}
	}
	for _, tc := range []struct {
		name        string
		subresource string
		r           admissiontest.Request
		refused     bool
	}{
		{"with the right", "status", admissiontest.Request{Old: of("example.com/mine"), Object: of("example.com/mine", issued)}, false},
		{"issued without the right", "status", admissiontest.Request{Old: of("example.com/other"), Object: of("example.com/other", issued)}, true},
		{"failed without the right", "status", admissiontest.Request{Old: of("example.com/other"), Object: of("example.com/other", failed)}, true},
		{"under another name", "status", admissiontest.Request{Old: of("example.com/other"), Object: of("example.com/mine", issued)}, true},
		{"nothing changed", "status", admissiontest.Request{Old: of("example.com/other", issued), Object: of("example.com/other", issued)}, false},
		{"something else", "approval", admissiontest.Request{Old: of("example.com/other"), Object: of("example.com/other", issued)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.Group, tc.r.Resource, tc.r.Subresource, tc.r.Operation = certificatesv1.GroupName, "certificatesigningrequests", tc.subresource, admission.Update
			p := New().(*Plugin)
			p.SetUnconditionalAuthorizer(admissiontest.Rules{"sign signers example.com/mine": true})
			if err := admissiontest.Run(p, tc.r.Attributes()); (err != nil) != tc.refused {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}

func TestNeedsAuthorizer(t *testing.T) {
	if err := admission.ValidateInitialization(New()); err == nil {
		t.Error("the plugin runs without an authorizer")
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificateapproval

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	of := func(signer string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
	}
	for _, tc := range []struct {
		name        string
		subresource string
		r           admissiontest.Request
		refused     bool
	}{
		{"by name", "approval", admissiontest.Request{Old: of("example.com/mine"), Object: of("example.com/mine")}, false},
		{"by domain", "approval", admissiontest.Request{Old: of("example.org/any"), Object: of("example.org/any")}, false},
		{"without the right", "approval", admissiontest.Request{Old: of("example.com/other"), Object: of("example.com/other")}, true},
		{"under another name", "approval", admissiontest.Request{Old: of("example.com/other"), Object: of("example.com/mine")}, true},
		{"something else", "status", admissiontest.Request{Old: of("example.com/other"), Object: of("example.com/other")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.Group, tc.r.Resource, tc.r.Subresource, tc.r.Operation = certificatesv1.GroupName, "certificatesigningrequests", tc.subresource, admission.Update
			p := New().(*Plugin)
			p.SetUnconditionalAuthorizer(admissiontest.Rules{"approve signers example.com/mine": true, "approve signers example.org/*": true})
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

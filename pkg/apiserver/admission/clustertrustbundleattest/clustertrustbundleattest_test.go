// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clustertrustbundleattest

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestValidate(t *testing.T) {
	type bundle = certificatesv1.ClusterTrustBundle
	of := func(signer string, mutate ...func(*bundle)) *bundle {
		b := &bundle{Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: "a"}}
		for _, m := range mutate {
			m(b)
		}
		return b
	}
	changed := func(b *bundle) { b.Spec.TrustBundle = "b" }
	labelled := func(b *bundle) { b.Labels = map[string]string{"a": "b"} }
	finalized := func(b *bundle) { b.Finalizers = []string{"a/b"} }
	for _, tc := range []struct {
		name    string
		r       admissiontest.Request
		refused bool
	}{
		{"no signer", admissiontest.Request{Object: of("")}, false},
		{"with the right", admissiontest.Request{Object: of("example.com/mine")}, false},
		{"without the right", admissiontest.Request{Object: of("example.com/other")}, true},
		{"changed without the right", admissiontest.Request{Operation: admission.Update, Old: of("example.com/other"), Object: of("example.com/other", changed)}, true},
		{"labelled without the right", admissiontest.Request{Operation: admission.Update, Old: of("example.com/other"), Object: of("example.com/other", labelled)}, true},
		{"only a finalizer", admissiontest.Request{Operation: admission.Update, Old: of("example.com/other"), Object: of("example.com/other", finalized)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.Group, tc.r.Resource = certificatesv1.GroupName, "clustertrustbundles"
			p := New().(*Plugin)
			p.SetUnconditionalAuthorizer(admissiontest.Rules{"attest signers example.com/mine": true})
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

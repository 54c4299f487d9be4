// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

var kubelet = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}

func TestPodCertificateRequest(t *testing.T) {
	p := New()
	withCertificate := func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = "a"
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/s"}}},
		}}}}
	}
	admissiontest.Initialize(t, p, newNode("n1", nil), pod("mine", "n1", withCertificate), pod("theirs", "n2", withCertificate),
		pod("mirror", "n1", withCertificate, mirror), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}})
	p.(*Plugin).SetUnconditionalAuthorizer(admissiontest.Rules{"request-serviceaccounts-podcertificate-signer example.com:ruled a": true})
	type spec = certificatesv1.PodCertificateRequestSpec
	for _, tc := range []struct {
		name   string
		mutate func(*spec)
		want   string
		retry  bool
	}{
		{"own pod", func(*spec) {}, "", false},
		{"signer by a rule", func(s *spec) { s.SignerName = "example.com/ruled" }, "", false},
		{"another signer", func(s *spec) { s.SignerName = "example.com/t" }, "does not mount", false},
		{"another node", func(s *spec) { s.NodeName = "n2" }, "not the requesting node", false},
		{"older node", func(s *spec) { s.NodeUID = "old" }, "names node UID", true},
		{"no pod", func(s *spec) { s.PodName = "none" }, "while retrieving pod", true},
		{"older pod", func(s *spec) { s.PodUID = "old" }, "contains pod UID", true},
		{"another's pod", func(s *spec) { s.PodName, s.PodUID = "theirs", "theirs" }, "is not running on node", false},
		{"mirror pod", func(s *spec) { s.PodName, s.PodUID = "mirror", "mirror" }, "is a mirror pod", false},
		{"another account", func(s *spec) { s.ServiceAccountName = "b" }, "differs from running pod", false},
		{"older account", func(s *spec) { s.ServiceAccountUID = "old" }, "names service account UID", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &certificatesv1.PodCertificateRequest{Spec: spec{
				SignerName: "example.com/s", NodeName: "n1", NodeUID: "uid", PodName: "mine", PodUID: "mine", ServiceAccountName: "a", ServiceAccountUID: "a",
			}}
			tc.mutate(&r.Spec)
			err := admissiontest.Run(p, admissiontest.Request{Group: certificatesv1.GroupName, Resource: "podcertificaterequests", Object: r, User: kubelet}.Attributes())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error = %v, want %q", err, tc.want)
			}
			if err != nil && apierrors.IsInternalError(err) != tc.retry {
				t.Errorf("error %v, want one to try again after = %v", err, tc.retry)
			}
		})
	}
	status := admissiontest.Request{Group: certificatesv1.GroupName, Resource: "podcertificaterequests", Subresource: "status", Operation: admission.Update, User: kubelet}
	if err := admissiontest.Run(p, status.Attributes()); !apierrors.IsForbidden(err) {
		t.Errorf("update of status: %v", err)
	}
}

func TestSigningRequest(t *testing.T) {
	p := New()
	admissiontest.Initialize(t, p)
	of := func(signer, name string) *certificatesv1.CertificateSigningRequest {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		}}
	}
	for _, tc := range []struct {
		name    string
		r       *certificatesv1.CertificateSigningRequest
		refused bool
	}{
		{"own", of(certificatesv1.KubeletServingSignerName, "system:node:n1"), false},
		{"another's", of(certificatesv1.KubeletServingSignerName, "system:node:n2"), true},
		{"another's client certificate", of(certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:n2"), true},
		{"of another signer", of("example.com/s", "ann"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := admissiontest.Run(p, admissiontest.Request{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Object: tc.r, User: kubelet}.Attributes())
			if (err != nil) != tc.refused {
				t.Errorf("error = %v, want refused = %v", err, tc.refused)
			}
		})
	}
}

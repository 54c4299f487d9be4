// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificaterequest is what all who judge CertificateSigningRequests share: how a request is read, which
// conditions it has, and what a certificate of a kubelet may say. Touch it when the rules of a kubelet's signers
// change; see https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers.
package certificaterequest

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// Parse reads a PKCS#10 request in PEM. It does not check its signature.
func Parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// Has tells whether the request has a condition that is true. An old condition without status is.
func Has(r *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == condition && (c.Status == "" || c.Status == corev1.ConditionTrue)
	})
}

// Approved tells whether the request may be signed. A denial outweighs an approval.
func Approved(r *certificatesv1.CertificateSigningRequest) bool {
	return Has(r, certificatesv1.CertificateApproved) && !Has(r, certificatesv1.CertificateDenied)
}

// Usages that a kubelet's certificates have; key encipherment is for RSA keys only.
var (
	clientUsages = []certificatesv1.KeyUsage{
		certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment,
	}
	serverUsages = []certificatesv1.KeyUsage{
		certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth,
	}
)

// ValidateKubeletClient returns what keeps a request from being one for the certificate by which a kubelet
// authenticates.
func ValidateKubeletClient(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case len(r.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(r.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // upstream's words
	case len(r.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(r.Subject.CommonName, "system:node:"):
		return errors.New("subject common name does not begin with system:node:") //nolint:staticcheck,revive // upstream's words
	}
	return validateUsages(usages, clientUsages)
}

// ValidateKubeletServing returns what keeps a request from being one for the certificate that a kubelet serves with.
func ValidateKubeletServing(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case len(r.DNSNames) == 0 && len(r.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(r.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // upstream's words
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	if err := validateUsages(usages, serverUsages); err != nil {
		return err
	}
	if !strings.HasPrefix(r.Subject.CommonName, "system:node:") {
		return errors.New("subject common name does not begin with system:node:") //nolint:staticcheck,revive // upstream's words
	}
	return nil
}

func validateUsages(usages, required []certificatesv1.KeyUsage) error {
	got := slices.Compact(slices.Sorted(slices.Values(usages)))
	withoutRSA := slices.DeleteFunc(slices.Clone(required), func(u certificatesv1.KeyUsage) bool {
		return u == certificatesv1.UsageKeyEncipherment
	})
	if slices.Equal(got, required) || slices.Equal(got, withoutRSA) {
		return nil
	}
	return fmt.Errorf("usages did not match %v", required)
}

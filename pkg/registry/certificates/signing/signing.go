// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package signing is what the resources of this group and the admission plugins for them share: who may act in the name of
// a signer, and how a certificate request is read. Touch it when these change; see
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#authorization.
package signing

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Allows reports whether a user may do something (approve, sign, attest) in the name of a signer: by a rule about this
// signer, or about all of its domain ("example.com/*").
func Allows(ctx context.Context, a authorizer.UnconditionalAuthorizer, u user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := a.Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: verb, Name: name,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", ResourceRequest: true,
		})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

// ParseRequest reads a PKCS#10 request in PEM. It does not check its signature.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podcertificaterequest

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/certificates/signer"
)

const (
	hour, day  = 60 * 60, 24 * 60 * 60
	maxLife    = 91 * day
	maxUID     = 128
	maxRequest = 10 << 10
	maxChain   = 100 << 10
)

var (
	specPath    = field.NewPath("spec")
	requestPath = specPath.Child("stubPKCS10Request")
)

func validate(_ context.Context, r *certificatesv1.PodCertificateRequest) field.ErrorList {
	s := &r.Spec
	errs := signer.ValidateName(s.SignerName, specPath.Child("signerName"))
	errs = append(errs, validateAnnotations(s.UnverifiedUserAnnotations, specPath.Child("unverifiedUserAnnotations"))...)
	for _, ref := range []struct {
		field, name string
		uid         types.UID
	}{
		{"pod", s.PodName, s.PodUID},
		{"serviceAccount", s.ServiceAccountName, s.ServiceAccountUID},
		{"node", string(s.NodeName), s.NodeUID},
	} {
		for _, msg := range apivalidation.NameIsDNSSubdomain(ref.name, false) {
			errs = append(errs, field.Invalid(specPath.Child(ref.field+"Name"), ref.name, msg))
		}
		uid := specPath.Child(ref.field + "UID")
		if ref.uid == "" {
			errs = append(errs, field.Invalid(uid, ref.uid, "must not be empty"))
		}
		if len(ref.uid) > maxUID {
			errs = append(errs, field.TooLong(uid, ref.uid, maxUID))
		}
	}
	life := specPath.Child("maxExpirationSeconds")
	if s.MaxExpirationSeconds == nil {
		return append(errs, field.Required(life, "must be set"))
	}
	longest := int32(maxLife)
	if signer.IsKubernetes(s.SignerName) {
		longest = day
	}
	if n := *s.MaxExpirationSeconds; n < hour || n > longest {
		errs = append(errs, field.Invalid(life, n, fmt.Sprintf("must be in the range [%d, %d]", hour, longest)))
	}
	return append(errs, one(validateRequest(s.StubPKCS10Request))...)
}

func validateAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for k := range annotations {
		errs = append(errs, validation.IsDomainPrefixedKey(path, strings.ToLower(k))...)
	}
	if err := apivalidation.ValidateAnnotationsSize(annotations); err != nil {
		errs = append(errs, field.TooLong(path, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}

func one(err *field.Error) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{err}
}

// validateRequest checks the PKCS#10 request by which the requestor proves that it has the private key. What else it says is
// for the signer to judge.
func validateRequest(data []byte) *field.Error {
	if len(data) == 0 {
		// Upstream's words: earlier versions had another way.
		return field.Invalid(specPath, field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")
	}
	if len(data) > maxRequest {
		return field.TooLong(requestPath, data, maxRequest)
	}
	request, err := x509.ParseCertificateRequest(data)
	if err != nil {
		return field.Invalid(requestPath, field.OmitValueType{}, "must be a valid PKCS#10 CSR")
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return field.Invalid(requestPath, "curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return field.Invalid(requestPath, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
		}
	default:
		return field.Invalid(requestPath, field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	if request.CheckSignature() != nil {
		return field.Invalid(requestPath, field.OmitValueType{}, "invalid signature")
	}
	return nil
}

// validateUpdate refuses every change of the spec.
func validateUpdate(_ context.Context, r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	return apivalidation.ValidateImmutableField(r.Spec, old.Spec, specPath)
}

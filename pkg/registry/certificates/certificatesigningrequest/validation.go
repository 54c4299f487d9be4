// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/certificates/signer"
	"minik8s.io/minik8s/pkg/registry/certificates/signing"
)

// legacySigner is what requests of API versions had that knew no signers.
const legacySigner = "kubernetes.io/legacy-unknown"

var usages = sets.New(
	certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment, certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment, certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign,
	certificatesv1.UsageEncipherOnly, certificatesv1.UsageDecipherOnly, certificatesv1.UsageAny, certificatesv1.UsageServerAuth,
	certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning, certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME,
	certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping,
	certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
)

// decisions are the conditions by which a request is decided; outcomes cannot be taken back either.
var (
	decisions = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}
	outcomes  = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}
)

var conditionsPath, certificatePath = field.NewPath("status", "conditions"), field.NewPath("status", "certificate")

func validate(_ context.Context, r *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return validateAll(r, nil)
}

func validateUpdate(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return validateAll(r, old) // the status is the old one
}

func validateStatus(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	errs := append(validateAll(r, old), validateKept(r, old)...)
	errs = append(errs, validateUndecided(r, old)...)
	if len(old.Status.Certificate) > 0 && !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		errs = append(errs, field.Forbidden(certificatePath, "updates may not modify existing certificate content"))
	}
	return errs
}

func validateApproval(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	errs := append(validateAll(r, old), validateKept(r, old)...)
	return append(errs, validateUnissued(r, old)...)
}

// validateAll checks a whole request. What is wrong with the old one already is tolerated; old is nil on create.
func validateAll(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if err := checkRequest(r.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), r.Spec.Request, err.Error()))
	}
	errs = append(errs, validateUsages(r, old, path.Child("usages"))...)
	if r.Spec.SignerName == legacySigner && (old == nil || old.Spec.SignerName != legacySigner) {
		errs = append(errs, field.Invalid(path.Child("signerName"), r.Spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, signer.ValidateName(r.Spec.SignerName, path.Child("signerName"))...)
	}
	if s := r.Spec.ExpirationSeconds; s != nil && *s < 600 {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, validateConditions(r, old)...)
	tolerated := old != nil && (bytes.Equal(r.Status.Certificate, old.Status.Certificate) || checkCertificates(old.Status.Certificate) != nil)
	if err := checkCertificates(r.Status.Certificate); err != nil && !tolerated {
		errs = append(errs, field.Invalid(certificatePath, "<certificate data>", err.Error()))
	}
	return errs
}

func checkRequest(data []byte) error {
	request, err := signing.ParseRequest(data)
	if err != nil {
		return err
	}
	return request.CheckSignature()
}

// checkCertificates wants nothing, or certificates in PEM, perhaps with text between them.
func checkCertificates(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	block, rest := pem.Decode(data)
	if block == nil {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certs, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certs) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
	}
	return nil
}

func validateUsages(r, old *certificatesv1.CertificateSigningRequest, path *field.Path) field.ErrorList {
	var had []certificatesv1.KeyUsage
	if old != nil {
		had = old.Spec.Usages
	}
	unknown, repeated := usages.HasAll(had...), len(sets.New(had...)) == len(had)
	var errs field.ErrorList
	if len(r.Spec.Usages) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	for i, u := range r.Spec.Usages {
		if unknown && !usages.Has(u) {
			errs = append(errs, field.NotSupported(path.Index(i), u, sets.List(usages)))
		}
		if repeated && slices.Contains(r.Spec.Usages[:i], u) {
			errs = append(errs, field.Duplicate(path.Index(i), u))
		}
	}
	return errs
}

// flaws are what conditions of old requests may have.
type flaws struct{ untyped, repeated, contradictory bool }

func flawsOf(r *certificatesv1.CertificateSigningRequest) flaws {
	if r == nil {
		return flaws{}
	}
	types := sets.New[certificatesv1.RequestConditionType]()
	for _, c := range r.Status.Conditions {
		types.Insert(c.Type)
	}
	return flaws{untyped: types.Has(""), repeated: len(types) < len(r.Status.Conditions), contradictory: types.HasAll(decisions...)}
}

func validateConditions(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	tolerated := flawsOf(old)
	seen := sets.New[certificatesv1.RequestConditionType]()
	var errs field.ErrorList
	for i, c := range r.Status.Conditions {
		path := conditionsPath.Index(i)
		if c.Type == "" && !tolerated.untyped {
			errs = append(errs, field.Required(path.Child("type"), ""))
		}
		values := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if slices.Contains(outcomes, c.Type) {
			values = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		if c.Status == "" {
			errs = append(errs, field.Required(path.Child("status"), ""))
		} else if !slices.Contains(values, c.Status) {
			errs = append(errs, field.NotSupported(path.Child("status"), c.Status, values))
		}
		other := map[certificatesv1.RequestConditionType]certificatesv1.RequestConditionType{
			certificatesv1.CertificateApproved: certificatesv1.CertificateDenied, certificatesv1.CertificateDenied: certificatesv1.CertificateApproved,
		}
		if opposite, ok := other[c.Type]; ok && seen.Has(opposite) && !tolerated.contradictory {
			errs = append(errs, field.Invalid(conditionsPath, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen.Has(c.Type) && !tolerated.repeated {
			errs = append(errs, field.Duplicate(path.Child("type"), c.Type))
		}
		seen.Insert(c.Type)
	}
	return errs
}

// validateKept refuses that a decision or failure is taken back.
func validateKept(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	for _, kind := range outcomes {
		if len(indices(r, kind)) < len(indices(old, kind)) {
			errs = append(errs, field.Forbidden(conditionsPath, fmt.Sprintf("updates may not remove a condition of type %q", kind)))
		}
	}
	return errs
}

// validateUndecided refuses decisions outside of the approval subresource.
func validateUndecided(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	for _, kind := range decisions {
		is, was := ofType(r, kind), ofType(old, kind)
		if len(is) > len(was) {
			errs = append(errs, field.Forbidden(conditionsPath, fmt.Sprintf("updates may not add a condition of type %q", kind)))
		} else if len(is) == len(was) && !apiequality.Semantic.DeepEqual(is, was) {
			errs = append(errs, field.Forbidden(conditionsPath, fmt.Sprintf("updates may not modify a condition of type %q", kind)))
		}
	}
	return errs
}

func ofType(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var found []certificatesv1.CertificateSigningRequestCondition
	for _, i := range indices(r, kind) {
		found = append(found, r.Status.Conditions[i])
	}
	return found
}

// validateUnissued refuses certificates outside of the status subresource.
func validateUnissued(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	if bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		return nil
	}
	return field.ErrorList{field.Forbidden(certificatePath, "updates may not set certificate content")}
}

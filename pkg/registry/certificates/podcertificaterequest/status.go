// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podcertificaterequest

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	issued = certificatesv1.PodCertificateRequestConditionTypeIssued
	denied = certificatesv1.PodCertificateRequestConditionTypeDenied
	failed = certificatesv1.PodCertificateRequestConditionTypeFailed
)

// outcomes end a request.
var outcomes = sets.New(issued, denied, failed)

const (
	// clockSkew is how far the beginning of a new certificate may be from now.
	clockSkew = 5 * time.Minute
	// refreshMargin is how far the refresh must be from both ends of a certificate's life.
	refreshMargin = 10 * time.Minute
)

var (
	statusPath  = field.NewPath("status")
	chainPath   = statusPath.Child("certificateChain")
	beginPath   = statusPath.Child("notBefore")
	endPath     = statusPath.Child("notAfter")
	refreshPath = statusPath.Child("beginRefreshAt")
)

func validateStatus(_ context.Context, r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	if errs := validateConditions(r.Status.Conditions); len(errs) > 0 {
		return errs // all that follows depends on them
	}
	is := outcome(r)
	switch {
	case outcome(old) != "":
		return unchanged(r.Status, old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	case is == denied || is == failed:
		return unchanged(r.Status, certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions},
			"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	case is == issued:
		return validateIssued(r, &old.Spec, time.Now())
	}
	return unchanged(r.Status, old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
}

// outcome is the condition that ended a request, "" if none has.
func outcome(r *certificatesv1.PodCertificateRequest) string {
	for _, c := range r.Status.Conditions {
		if outcomes.Has(c.Type) && c.Status == metav1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func unchanged(is, want certificatesv1.PodCertificateRequestStatus, msg string) field.ErrorList {
	if apiequality.Semantic.DeepEqual(is, want) {
		return nil
	}
	return field.ErrorList{field.Invalid(statusPath, field.OmitValueType{}, msg)}
}

func validateConditions(conditions []metav1.Condition) field.ErrorList {
	var errs field.ErrorList
	ended := false
	for i, c := range conditions {
		// The dot before the bracket is upstream's.
		path := field.NewPath("status", "conditions", fmt.Sprintf("[%d]", i))
		if !outcomes.Has(c.Type) {
			errs = append(errs, field.NotSupported(path.Child("type"), c.Type, []string{issued, denied, failed}))
			continue
		}
		if ended {
			errs = append(errs, field.Invalid(path.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		ended = true
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(path.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return append(errs, metav1validation.ValidateConditions(conditions, statusPath.Child("conditions"))...)
}

// validateIssued checks what a signer has issued against what was asked for.
func validateIssued(r *certificatesv1.PodCertificateRequest, asked *certificatesv1.PodCertificateRequestSpec, now time.Time) field.ErrorList {
	chain := r.Status.CertificateChain
	if len(chain) > maxChain {
		return one(field.TooLong(chainPath, chain, maxChain))
	}
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		return one(field.Invalid(chainPath, chain, "issued certificate chain must contain at least one certificate"))
	}
	if block.Type != "CERTIFICATE" {
		return one(field.Invalid(chainPath, chain, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"))
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return one(field.Invalid(chainPath, chain, "leaf certificate does not parse as valid X.509"))
	}
	errs := validateNames(leaf)
	request, err := x509.ParseCertificateRequest(asked.StubPKCS10Request)
	if err != nil {
		return append(errs, field.Invalid(requestPath, field.OmitValueType{}, "must be a valid PKCS#10 CSR"))
	}
	if key, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !key.Equal(leaf.PublicKey) {
		return append(errs, field.Invalid(chainPath, chain, "leaf certificate was not issued to the requested public key"))
	}
	if errs = append(errs, validatePresent(&r.Status)...); len(errs) > 0 {
		return errs
	}
	if err := validateTimes(&r.Status, leaf, time.Duration(*r.Spec.MaxExpirationSeconds)*time.Second, now); err != nil {
		return one(err)
	}
	return one(validateIntermediates(rest, chain))
}

// validateNames refuses names in a certificate that verifiers choke on.
func validateNames(leaf *x509.Certificate) field.ErrorList {
	var errs field.ErrorList
	for _, n := range leaf.DNSNames {
		if n == "" {
			errs = append(errs, field.Invalid(chainPath, n, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(n, "..") {
			errs = append(errs, field.Invalid(chainPath, n, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(n, ".") || strings.HasSuffix(n, ".") {
			errs = append(errs, field.Invalid(chainPath, n, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, a := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(a); err != nil {
			errs = append(errs, field.Invalid(chainPath, a, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

func validatePresent(s *certificatesv1.PodCertificateRequestStatus) field.ErrorList {
	var errs field.ErrorList
	if s.NotBefore == nil {
		errs = append(errs, field.Required(beginPath, "must be present and consistent with the issued certificate"))
	}
	if s.NotAfter == nil {
		errs = append(errs, field.Required(endPath, "must be present and consistent with the issued certificate"))
	}
	if s.BeginRefreshAt == nil {
		errs = append(errs, field.Required(refreshPath, "must be present and in the range [notbefore+10min, notafter-10min]"))
	}
	return errs
}

// validateTimes wants times that are those of the certificate, a life that is neither too short nor longer than asked
// for, and a refresh well inside of it.
func validateTimes(s *certificatesv1.PodCertificateRequestStatus, leaf *x509.Certificate, longest time.Duration, now time.Time) *field.Error {
	begin, end, refresh := s.NotBefore.Time, s.NotAfter.Time, s.BeginRefreshAt.Time
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	switch {
	case !begin.Equal(leaf.NotBefore):
		return field.Invalid(beginPath, begin, "must be set to the NotBefore time encoded in the leaf certificate")
	case begin.Sub(now).Abs() >= clockSkew:
		return field.Invalid(beginPath, begin, "must be set to within 5 minutes of kube-apiserver's current time")
	case !end.Equal(leaf.NotAfter):
		return field.Invalid(endPath, end, "must be set to the NotAfter time encoded in the leaf certificate")
	case life < time.Hour:
		return field.Invalid(chainPath, life, "leaf certificate lifetime must be >= 1 hour")
	case life > longest:
		return field.Invalid(chainPath, life, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", int(longest.Seconds())))
	case refresh.Before(begin.Add(refreshMargin)):
		return field.Invalid(refreshPath, refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(end.Add(-refreshMargin)):
		return field.Invalid(refreshPath, refresh, "must be at least 10 minutes before status.notAfter")
	}
	return nil
}

// validateIntermediates checks that the rest of a chain are certificates. It cannot be verified: its root is not in it.
func validateIntermediates(rest []byte, chain string) *field.Error {
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if block.Type != "CERTIFICATE" {
			return field.Invalid(chainPath, chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return field.Invalid(chainPath, chain, "intermediate certificate does not parse as valid X.509")
		}
	}
}

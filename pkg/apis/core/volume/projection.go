// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/certificates/signer"
	"minik8s.io/minik8s/pkg/apis/core/localpath"
	"minik8s.io/minik8s/pkg/apis/core/ratchet"
)

// How long certificates of pods may be valid, in seconds.
const (
	minExpiration           = 60 * 60
	maxExpiration           = 91 * 24 * 60 * 60
	maxKubernetesExpiration = 24 * 60 * 60
)

var keyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

func validateProjections(projections []corev1.VolumeProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := sets.New[string]()
	take := func(file, shown string) {
		if taken.Has(file) {
			errs = append(errs, field.Invalid(path, shown, "conflicting duplicate paths"))
		}
		taken.Insert(file)
	}
	takeKeys := func(items []corev1.KeyToPath, shown string) {
		for _, item := range items {
			if item.Path != "" {
				take(item.Path, shown)
			}
		}
	}
	for i, s := range projections {
		p := path.Child("sources").Index(i)
		n := 0
		if s.Secret != nil {
			n++
			errs = append(errs, required(s.Secret.Name, p.Child("secret", "name"))...)
			errs = append(errs, validateKeys(s.Secret.Items, p.Child("secret", "items"))...)
			takeKeys(s.Secret.Items, s.Secret.Name)
		}
		if s.ConfigMap != nil {
			n++
			errs = append(errs, required(s.ConfigMap.Name, p.Child("configMap", "name"))...)
			errs = append(errs, validateKeys(s.ConfigMap.Items, p.Child("configMap", "items"))...)
			takeKeys(s.ConfigMap.Items, s.ConfigMap.Name)
		}
		if s.DownwardAPI != nil {
			n++
			for j := range s.DownwardAPI.Items {
				f := &s.DownwardAPI.Items[j]
				errs = append(errs, validateFile(f, p.Child("downwardAPI"))...)
				if f.Path != "" {
					take(f.Path, f.Path)
				}
			}
		}
		if t := s.ServiceAccountToken; t != nil {
			n++
			errs = append(errs, validateToken(t, path, p.Child("serviceAccountToken"))...)
		}
		if b := s.ClusterTrustBundle; b != nil {
			n++
			errs = append(errs, validateTrustBundle(b, p.Child("clusterTrustBundle"))...)
			take(b.Path, b.Path)
		}
		if c := s.PodCertificate; c != nil {
			n++
			errs = append(errs, validateCertificate(c, p.Child("podCertificate"))...)
			for _, file := range []string{c.CredentialBundlePath, c.KeyPath, c.CertificateChainPath} {
				if file != "" {
					take(file, file)
				}
			}
		}
		if n > 1 {
			errs = append(errs, field.Forbidden(p, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

// validateToken reports a bad path at the volume (volumePath), as clients know it.
func validateToken(t *corev1.ServiceAccountTokenProjection, volumePath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s := t.ExpirationSeconds; {
	case s == nil:
		errs = append(errs, field.Required(path.Child("expirationSeconds"), ""))
	case *s < 10*60:
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes"))
	case *s > 1<<32:
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds"))
	}
	errs = append(errs, validateUser(t.User, path.Child("user"))...)
	if t.Path == "" {
		return append(errs, field.Required(volumePath.Child("path"), ""))
	}
	return append(errs, ratchet.Mark("paths of tokens", localpath.ValidateNonReserved(t.Path, volumePath.Child("path"))...)...)
}

// validateTrustBundle checks a projection of trust anchors (KEP-3257): of one bundle or of all of a signer.
func validateTrustBundle(b *corev1.ClusterTrustBundleProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case b.Name != nil && b.SignerName != nil:
		errs = append(errs, field.Invalid(path, b, "only one of name and signerName may be used"))
	case b.Name != nil:
		if *b.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "must be a valid object name"))
		}
		for _, msg := range signer.ValidateBundleName(signerOf(*b.Name), *b.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), *b.Name, "not a valid clustertrustbundlename: "+msg))
		}
		if b.LabelSelector != nil {
			errs = append(errs, field.Invalid(path.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			errs = append(errs, field.Required(path.Child("signerName"), "must be a valid signer name"))
		}
		errs = append(errs, signer.ValidateName(*b.SignerName, path.Child("signerName"))...)
		errs = append(errs, metav1validation.ValidateLabelSelector(b.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, path.Child("labelSelector"))...)
	default:
		errs = append(errs, field.Required(path, "either name or signerName must be specified"))
	}
	errs = append(errs, required(b.Path, path.Child("path"))...)
	errs = append(errs, validateUser(b.User, path.Child("user"))...)
	return append(errs, localpath.ValidateNonReserved(b.Path, path.Child("path"))...)
}

// validateCertificate checks a projection of a certificate for the pod (KEP-4317).
func validateCertificate(c *corev1.PodCertificateProjection, path *field.Path) field.ErrorList {
	errs := signer.ValidateName(c.SignerName, path.Child("signerName"))
	errs = append(errs, validateUserAnnotations(c.UserAnnotations, path.Child("userAnnotations"))...)
	errs = append(errs, validateUser(c.User, path.Child("user"))...)
	if !slices.Contains(keyTypes, c.KeyType) {
		errs = append(errs, field.NotSupported(path.Child("keyType"), c.KeyType, keyTypes))
	}
	if s, p := c.MaxExpirationSeconds, path.Child("maxExpirationSeconds"); s != nil {
		most := int32(maxExpiration)
		if signer.IsKubernetes(c.SignerName) {
			most = maxKubernetesExpiration
		}
		switch {
		case *s < minExpiration:
			errs = append(errs, field.Invalid(p, *s, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", minExpiration)))
		case *s > most:
			errs = append(errs, field.Invalid(p, *s, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most)))
		}
	}
	n := 0
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath},
	} {
		if f.path != "" {
			n++
			errs = append(errs, localpath.ValidateNonReserved(f.path, path.Child(f.name))...)
		}
	}
	if n == 0 {
		errs = append(errs, field.Required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	return errs
}

func validateUserAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for key := range annotations {
		errs = append(errs, validation.IsDomainPrefixedKey(path, strings.ToLower(key))...)
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		errs = append(errs, field.TooLong(path, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}

// signerOf is the signer that the name of a trust bundle begins with, "" if it belongs to none.
func signerOf(bundle string) string {
	i := strings.LastIndex(bundle, ":")
	return strings.ReplaceAll(bundle[:max(i, 0)], ":", "/")
}

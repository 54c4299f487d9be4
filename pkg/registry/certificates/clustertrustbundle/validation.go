// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clustertrustbundle

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/certificates/signer"
)

const maxBundle = 1 << 20

func validate(_ context.Context, b *certificatesv1.ClusterTrustBundle) field.ErrorList {
	return append(validateNames(b), validateAnchors(b.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))...)
}

// validateUpdate does not parse anchors again that stay as they are: parsers grow stricter.
func validateUpdate(_ context.Context, b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	errs := validateNames(b)
	if b.Spec.TrustBundle != old.Spec.TrustBundle {
		errs = append(errs, validateAnchors(b.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))...)
	}
	return append(errs, apivalidation.ValidateImmutableField(b.Spec.SignerName, old.Spec.SignerName, field.NewPath("spec", "signerName"))...)
}

func validateNames(b *certificatesv1.ClusterTrustBundle) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		field, value string
		prefix       bool
	}{{"generateName", b.GenerateName, true}, {"name", b.Name, false}} {
		if n.value == "" {
			continue
		}
		for _, msg := range signer.ValidateBundleName(b.Spec.SignerName, n.value, n.prefix) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", n.field), n.value, msg))
		}
	}
	if b.Spec.SignerName != "" {
		errs = append(errs, signer.ValidateName(b.Spec.SignerName, field.NewPath("spec", "signerName"))...)
	}
	return errs
}

// validateAnchors wants CA certificates in PEM, each once.
func validateAnchors(bundle string, path *field.Path) field.ErrorList {
	if len(bundle) > maxBundle {
		return field.ErrorList{field.TooLong(path, "", maxBundle)}
	}
	var errs field.ErrorList
	invalid := func(format string, args ...any) {
		errs = append(errs, field.Invalid(path, "<value omitted>", fmt.Sprintf(format, args...)))
	}
	found := map[string][]int{}
	rest := []byte(bundle)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if problem := badAnchor(block); problem != "" {
			invalid("entry %d %s", i, problem)
			continue
		}
		found[string(block.Bytes)] = append(found[string(block.Bytes)], i)
	}
	if len(errs) > 0 {
		return errs // there may be no anchor or the same twice only because of them
	}
	if len(found) == 0 {
		invalid("at least one trust anchor must be provided")
	}
	for _, at := range found {
		if len(at) > 1 {
			invalid("duplicate trust anchor (indices %v)", at)
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Detail, b.Detail) })
	return errs
}

func badAnchor(block *pem.Block) string {
	if block.Type != "CERTIFICATE" {
		return "has bad block type: " + block.Type
	}
	if len(block.Headers) > 0 {
		return "has PEM block headers"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !cert.IsCA:
		return "does not have the CA bit set"
	case !cert.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package signer has the rules for the names of certificate signers ("example.com/my-signer") and of their trust bundles.
// Touch it when these change; see https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/.
package signer

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPath leaves room for a namespace and the name of an object in it, with a dot between.
const maxPath = validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength

// ValidateName checks a signer's name.
func ValidateName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	parts := strings.Split(name, "/")
	if len(parts) != 2 {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(parts[0]) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path, "", validation.DNS1123SubdomainMaxLength))
	}
	errs = append(errs, validateLabels(parts[0], validation.IsDNS1123Label, path)...)
	if !strings.Contains(parts[0], ".") {
		errs = append(errs, field.Invalid(path, parts[0], "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, validateLabels(parts[1], validation.IsDNS1123Subdomain, path)...)
	if most := validation.DNS1123SubdomainMaxLength + 1 + maxPath; len(name) > most {
		errs = append(errs, field.TooLong(path, "", most))
	}
	return errs
}

// validateLabels reports the first bad one of the labels between dots.
func validateLabels(part string, check func(string) []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for label := range strings.SplitSeq(part, ".") {
		for _, msg := range check(label) {
			errs = append(errs, field.Invalid(path, part, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
		if len(errs) > 0 {
			break
		}
	}
	return errs
}

// IsKubernetes reports whether a name is among those that belong to the Kubernetes project.
func IsKubernetes(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}

// ValidateBundleName checks the name of a ClusterTrustBundle, which begins with that of its signer, if it has one.
func ValidateBundleName(signer, name string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{"ClusterTrustBundle without signer name must not have \":\" in its name"}
		}
		return apivalidation.NameIsDNSSubdomain(name, prefix)
	}
	begin := strings.ReplaceAll(signer, "/", ":") + ":"
	if !strings.HasPrefix(name, begin) {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, begin)}
	}
	return apivalidation.NameIsDNSSubdomain(strings.TrimPrefix(name, begin), prefix)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dns checks the DNS policy and configuration of a pod. Touch it when the resolver's limits change.
package dns

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of resolv.conf.
const (
	MaxNameservers = 3
	MaxSearches    = 32
	MaxSearchChars = 2048
)

var policies = []corev1.DNSPolicy{corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone}

// ValidatePolicy checks a policy.
func ValidatePolicy(policy corev1.DNSPolicy, path *field.Path) field.ErrorList {
	switch {
	case policy == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(policies, policy):
		return field.ErrorList{field.NotSupported(path, policy, policies)}
	}
	return nil
}

// ValidateConfig checks the configuration that goes with a policy; nil is fine unless the policy is None.
func ValidateConfig(c *corev1.PodDNSConfig, policy corev1.DNSPolicy, path *field.Path) field.ErrorList {
	if policy == corev1.DNSNone {
		if c == nil {
			return field.ErrorList{field.Required(path, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", policy))}
		}
		if len(c.Nameservers) == 0 {
			return field.ErrorList{field.Required(path.Child("nameservers"), fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", policy))}
		}
	}
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	servers, searches := path.Child("nameservers"), path.Child("searches")
	if len(c.Nameservers) > MaxNameservers {
		errs = append(errs, field.Invalid(servers, c.Nameservers, fmt.Sprintf("must not have more than %v nameservers", MaxNameservers)))
	}
	for i, ns := range c.Nameservers {
		errs = append(errs, validation.IsValidIPForLegacyField(servers.Index(i), ns, true, nil)...)
	}
	if len(c.Searches) > MaxSearches {
		errs = append(errs, field.Invalid(searches, c.Searches, fmt.Sprintf("must not have more than %v search paths", MaxSearches)))
	}
	if len(strings.Join(c.Searches, " ")) > MaxSearchChars {
		errs = append(errs, field.Invalid(searches, c.Searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", MaxSearchChars)))
	}
	for i, s := range c.Searches {
		if s == "." {
			continue
		}
		s = strings.TrimSuffix(s, ".")
		for _, msg := range validation.IsDNS1123SubdomainWithUnderscore(s) {
			errs = append(errs, field.Invalid(searches.Index(i), s, msg))
		}
	}
	for i, o := range c.Options {
		if o.Name == "" {
			errs = append(errs, field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

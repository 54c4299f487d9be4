// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package policycheck finds what cannot be right in the expressions of a ValidatingAdmissionPolicy, by the schemas of what it
// matches. Touch it when these are to be found in another way; the controller that writes the findings down is
// pkg/controllers/validatingadmissionpolicystatus, which is built without the machinery that is needed here.
package policycheck

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Check returns what is wrong with a policy. It is safe for concurrent use.
type Check func(*admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning

// New returns a Check that asks the API server for resources and their schemas when it is first called. The documents are read
// anew for each policy: policies change seldom, and documents are large.
func New(config *rest.Config) (Check, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client: %w", err)
	}
	checker := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: disco},
		RestMapper:     restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
	}
	return checker.Check, nil
}

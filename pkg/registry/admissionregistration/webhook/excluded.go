// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Excluded are the resources that no webhook and no policy sees: an admission that waits for them could lock everybody out.
var Excluded = []schema.GroupResource{
	{Group: authenticationv1.GroupName, Resource: "selfsubjectreviews"},
	{Group: authenticationv1.GroupName, Resource: "tokenreviews"},
	{Group: authorizationv1.GroupName, Resource: "localsubjectaccessreviews"},
	{Group: authorizationv1.GroupName, Resource: "selfsubjectaccessreviews"},
	{Group: authorizationv1.GroupName, Resource: "selfsubjectrulesreviews"},
	{Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"},
}

// Warnings tell of rules that name an excluded resource, and so will never match it. A wildcard may mean others.
func Warnings(webhooks []admissionv1.ValidatingWebhook) []string {
	var warnings []string
	for i, w := range webhooks {
		for j, r := range w.Rules {
			for _, gr := range named(r.Rule) {
				warnings = append(warnings, fmt.Sprintf("%s: %s is excluded from admission webhooks; this rule will have no effect", Path.Index(i).Child("rules").Index(j), gr))
			}
		}
	}
	return warnings
}

// named are the excluded resources of a rule, each once.
func named(r admissionv1.Rule) []schema.GroupResource {
	if slices.Contains(r.APIGroups, "*") || slices.Contains(r.Resources, "*") {
		return nil
	}
	var out []schema.GroupResource
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			gr := schema.GroupResource{Group: group, Resource: resource}
			if slices.Contains(Excluded, gr) && !slices.Contains(out, gr) {
				out = append(out, gr)
			}
		}
	}
	return out
}

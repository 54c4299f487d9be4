// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package image knows when images are pulled, of containers and of volumes. Touch it when that changes.
package image

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var pullPolicies = sets.New(corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)

// PullPolicy is the policy of an image for which none is given: Always for the tag latest, said or implied.
func PullPolicy(image string) corev1.PullPolicy {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent // validation or the runtime refuses it
	}
	tagged, ok := ref.(reference.Tagged)
	switch _, digested := ref.(reference.Digested); {
	case ok && tagged.Tag() == "latest", !ok && !digested:
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// ValidatePullPolicy checks a policy.
func ValidatePullPolicy(policy corev1.PullPolicy, path *field.Path) field.ErrorList {
	switch {
	case policy == "":
		return field.ErrorList{field.Required(path, "")}
	case !pullPolicies.Has(policy):
		return field.ErrorList{field.NotSupported(path, policy, sets.List(pullPolicies))}
	}
	return nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// reservedPriorities of eviction responders belong to Kubernetes itself (KEP-4563).
const reservedPriorities = 1000

// ValidateCustom_EvictionResponder_Name is named by a tag of corev1.EvictionResponder: the domains of Kubernetes are
// reserved.
func ValidateCustom_EvictionResponder_Name(_ context.Context, _ operation.Operation, path *field.Path, value, _ *string) field.ErrorList {
	if value == nil {
		return nil
	}
	domain, _, _ := strings.Cut(*value, "/")
	domain = "." + strings.TrimRight(strings.ToLower(strings.TrimSpace(domain)), ".")
	for _, reserved := range []string{".k8s.io", ".kubernetes.io"} {
		if strings.HasSuffix(domain, reserved) {
			return field.ErrorList{field.Invalid(path, *value, "may not have a suffix of "+reserved)}
		}
	}
	return nil
}

// ValidateCustom_EvictionResponder_Priority is named by a tag of corev1.EvictionResponder.
func ValidateCustom_EvictionResponder_Priority(_ context.Context, _ operation.Operation, path *field.Path, value, _ *int32) field.ErrorList {
	if value != nil && *value >= 0 && *value < reservedPriorities {
		return field.ErrorList{field.Invalid(path, *value, "priorities 0-999 are reserved for responders with *.k8s.io suffix")}
	}
	return nil
}

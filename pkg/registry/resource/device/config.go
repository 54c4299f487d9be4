// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateConfiguration checks what is passed to a driver. The limit on its size is not applied to what is stored.
func ValidateConfiguration(c resourcev1.DeviceConfiguration, stored bool, path *field.Path) field.ErrorList {
	at := path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	limit := resourcev1.OpaqueParametersMaxLength
	if stored {
		limit = Unlimited
	}
	return append(ValidateDriver(c.Opaque.Driver, at.Child("driver")), ValidateObject(c.Opaque.Parameters, limit, at.Child("parameters"))...)
}

// ValidateObject checks that a raw value is a JSON object of at most so many bytes.
func ValidateObject(raw runtime.RawExtension, limit int, path *field.Path) field.ErrorList {
	if len(raw.Raw) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if limit >= 0 && len(raw.Raw) > limit {
		return field.ErrorList{field.TooLong(path, "", limit)}
	}
	const omitted = "<value omitted>"
	var v any
	if err := json.Unmarshal(raw.Raw, &v); err != nil {
		return field.ErrorList{field.Invalid(path, omitted, fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	if v == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if _, ok := v.(map[string]any); !ok {
		return field.ErrorList{field.Invalid(path, omitted, "must be a valid JSON object")}
	}
	return nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dsl

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

func compileSchema(document map[string]any) (*validate.SchemaValidator, error) {
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var schema spec.Schema
	if err := json.Unmarshal(encoded, &schema); err != nil {
		return nil, err
	}
	if schema.Ref.String() != "" {
		return nil, errors.New("$ref is not supported")
	}
	return validate.NewSchemaValidator(&schema, nil, "", strfmt.Default), nil
}

// Validate returns what of a value does not obey a schema; without a schema, nothing.
func (d Data) Validate(value any) error {
	if d.Schema == nil {
		return nil
	}
	validator, err := compileSchema(d.Schema)
	if err != nil {
		return fmt.Errorf("not a JSON schema: %w", err)
	}
	return errors.Join(validator.Validate(value).Errors...)
}

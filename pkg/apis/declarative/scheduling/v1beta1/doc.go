// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/api/scheduling/v1beta1

// Package v1beta1 is the validation that the tags of k8s.io/api/scheduling/v1beta1 declare, generated. Touch it to name what the
// generated code cannot know.
package v1beta1

import "k8s.io/apimachinery/pkg/runtime"

var localSchemeBuilder runtime.SchemeBuilder

// AddToScheme registers the generated functions.
func AddToScheme(scheme *runtime.Scheme) error { return localSchemeBuilder.AddToScheme(scheme) }

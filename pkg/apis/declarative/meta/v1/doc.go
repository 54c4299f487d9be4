// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:validation-gen-input=k8s.io/apimachinery/pkg/apis/meta/v1
// +k8s:validation-gen-scheme-registry=nil

// Package v1 is the validation that the tags of k8s.io/apimachinery/pkg/apis/meta/v1 declare, generated, for the groups
// that embed these types. Touch it to name what the generated code cannot know.
package v1

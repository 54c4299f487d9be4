// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of functions.minik8s.io/v1alpha1. Touch it to change what users can say about a function, and run
// make generate.
//
// +kubebuilder:object:generate=true
// +groupName=functions.minik8s.io
package v1alpha1

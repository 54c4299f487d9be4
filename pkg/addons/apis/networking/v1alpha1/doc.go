// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of networking.minik8s.io/v1alpha1: Dns, a host name with what is served below it. Touch it when a
// Dns is to say more; hack/codegen makes the definition of it.
//
// +groupName=networking.minik8s.io
// +kubebuilder:object:generate=true
package v1alpha1

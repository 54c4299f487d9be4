// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of batch.minik8s.io/v1alpha1: SlurmJob, a job that a Slurm cluster runs. Touch it when a SlurmJob is to
// say more; hack/codegen makes the definition of it.
//
// +groupName=batch.minik8s.io
// +kubebuilder:object:generate=true
package v1alpha1

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podspec has the defaults and validation of pod specs, in pods and in the templates of what makes pods. Touch
// it when the pod spec gets another field; what the kubelet cannot run yet is listed in pkg/kubelet/internal/admission.
package podspec

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/container"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/apis/core/volume"
)

// SetDefaults fills in what pods and pod templates have in common.
func SetDefaults(s *corev1.PodSpec) {
	if s.DNSPolicy == "" {
		s.DNSPolicy = corev1.DNSClusterFirst
	}
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyAlways
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	if s.TerminationGracePeriodSeconds == nil {
		period := int64(corev1.DefaultTerminationGracePeriodSeconds)
		s.TerminationGracePeriodSeconds = &period
	}
	if s.SchedulerName == "" {
		s.SchedulerName = corev1.DefaultSchedulerName
	}
	// serviceAccount is the old name of serviceAccountName; both always agree.
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.DeprecatedServiceAccount
	}
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.Volumes {
		volume.SetDefaults(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		container.SetDefaults(&s.InitContainers[i])
	}
	for i := range s.Containers {
		container.SetDefaults(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		container.SetDefaults((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	quantity.SetDefaults(s.Overhead)
	if s.Resources != nil {
		quantity.SetRequirementsDefaults(s.Resources)
	}
}

// All returns the containers of all kinds, each with its path, for the spec at path.
func All(s *corev1.PodSpec, path *field.Path) iter.Seq2[*field.Path, *corev1.Container] {
	return func(yield func(*field.Path, *corev1.Container) bool) {
		for i := range s.InitContainers {
			if !yield(path.Child("initContainers").Index(i), &s.InitContainers[i]) {
				return
			}
		}
		for i := range s.Containers {
			if !yield(path.Child("containers").Index(i), &s.Containers[i]) {
				return
			}
		}
		for i := range s.EphemeralContainers {
			if !yield(path.Child("ephemeralContainers").Index(i), (*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

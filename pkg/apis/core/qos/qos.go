// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package qos tells the quality-of-service class of a pod, which decides who suffers first when a node runs short.
// Touch it when other resources than cpu and memory count.
package qos

import (
	corev1 "k8s.io/api/core/v1"
)

var counted = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Of is the class that a pod was given at its creation, which no resize changes, or that of its spec if it has none yet.
func Of(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return Class(&pod.Spec)
}

// Class is Guaranteed if every container has limits of cpu and memory that equal its requests, BestEffort if there are
// neither, else Burstable. Pod-level resources (KEP-2837), if given, count instead of the containers'.
func Class(spec *corev1.PodSpec) corev1.PodQOSClass {
	if r := spec.Resources; r != nil && (len(r.Limits) > 0 || len(r.Requests) > 0) {
		return class([]corev1.ResourceRequirements{*r})
	}
	var all []corev1.ResourceRequirements
	for _, c := range spec.Containers {
		all = append(all, c.Resources)
	}
	for _, c := range spec.InitContainers {
		all = append(all, c.Resources)
	}
	return class(all)
}

func class(all []corev1.ResourceRequirements) corev1.PodQOSClass {
	bestEffort, guaranteed := true, true
	for _, r := range all {
		for _, name := range counted {
			limit := r.Limits[name]
			request, ok := r.Requests[name]
			if !ok {
				request = limit // as the defaults say
			}
			if limit.Sign() > 0 || request.Sign() > 0 {
				bestEffort = false
			}
			if limit.Sign() <= 0 || request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	}
	switch {
	case bestEffort:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

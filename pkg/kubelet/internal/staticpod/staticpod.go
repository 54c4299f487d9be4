// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package staticpod makes static pods out of manifests, and the mirror pods that show them in the API. Touch it when a manifest
// may say something new, or when mirror pods differ in something else. See
// https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/.
package staticpod

import corev1 "k8s.io/api/core/v1"

// Where pods come from, as their annotation says.
const (
	API  = "api"
	File = "file"
	HTTP = "http"
)

// Annotations that the kubelet gives static pods, and their mirrors by copy. The one of mirrors is corev1.MirrorPodAnnotationKey.
const (
	sourceKey = "kubernetes.io/config.source"
	hashKey   = "kubernetes.io/config.hash"
	seenKey   = "kubernetes.io/config.seen"
)

// Source is where a pod of this node comes from.
func Source(pod *corev1.Pod) string {
	if s := pod.Annotations[sourceKey]; s != "" {
		return s
	}
	return API
}

// Is says whether a pod of this node is static: it comes from a manifest, not from the API.
func Is(pod *corev1.Pod) bool { return Source(pod) != API }

// FromAPI is a pod as this package understands it, whatever its annotations say to pass it off as a static one.
func FromAPI(pod *corev1.Pod) *corev1.Pod {
	if !Is(pod) {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Annotations[sourceKey] = API
	return pod
}

// IsMirror says whether an object of the API is a mirror pod, which nobody runs.
func IsMirror(pod *corev1.Pod) bool {
	_, is := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return is
}

// IsMirrorOf says whether an object of the API is the mirror of this very form of a static pod.
func IsMirrorOf(mirror, pod *corev1.Pod) bool {
	return IsMirror(mirror) && mirror.Namespace == pod.Namespace && mirror.Name == pod.Name &&
		mirror.Annotations[corev1.MirrorPodAnnotationKey] == pod.Annotations[hashKey]
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// annotation tells what has been set by whom.
const annotation = "kubernetes.io/limit-ranger"

// setDefaults gives the containers of a pod the requests and limits that they lack.
func setDefaults(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, l := range r.Spec.Limits {
		if l.Type != corev1.LimitTypeContainer {
			continue
		}
		merge(&requests, l.DefaultRequest)
		merge(&limits, l.Default)
	}
	var notes []string
	for i := range pod.Spec.Containers {
		notes = append(notes, fill(&pod.Spec.Containers[i], "container", requests, limits)...)
	}
	for i := range pod.Spec.InitContainers {
		notes = append(notes, fill(&pod.Spec.InitContainers[i], "init container", requests, limits)...)
	}
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

func fill(c *corev1.Container, what string, requests, limits corev1.ResourceList) []string {
	var notes []string
	if set := merge(&c.Resources.Requests, requests); len(set) > 0 {
		notes = append(notes, fmt.Sprintf("%s request for %s %s", strings.Join(set, ", "), what, c.Name))
	}
	if set := merge(&c.Resources.Limits, limits); len(set) > 0 {
		notes = append(notes, fmt.Sprintf("%s limit for %s %s", strings.Join(set, ", "), what, c.Name))
	}
	return notes
}

// merge adds what a list lacks and returns the names, sorted.
func merge(to *corev1.ResourceList, from corev1.ResourceList) []string {
	var set []string
	for name, q := range from {
		if _, ok := (*to)[name]; ok {
			continue
		}
		if *to == nil {
			*to = corev1.ResourceList{}
		}
		(*to)[name] = q.DeepCopy()
		set = append(set, string(name))
	}
	slices.Sort(set)
	return set
}

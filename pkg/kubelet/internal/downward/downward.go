// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package downward resolves what a pod may ask about itself (fieldRef, resourceFieldRef), for environment variables and
// volumes alike; touch it when the API allows a new field. See KEP-1968 and the "downward API" page of the docs.
package downward

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// IPs are the addresses of a pod and its node, primary first. They are given apart from the pod because the kubelet
// knows them before the API server does.
type IPs struct{ Pod, Host []string }

// Field returns the value of a fieldPath. Whole label and annotation maps come as sorted key="escaped value" lines.
func Field(pod *corev1.Pod, path string, ips IPs) (string, error) {
	if field, key, ok := subscript(path); ok {
		switch field {
		case "metadata.annotations":
			if errs := validation.IsQualifiedName(strings.ToLower(key)); len(errs) > 0 {
				return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(errs, ";"))
			}
			return pod.Annotations[key], nil
		case "metadata.labels":
			if errs := validation.IsQualifiedName(key); len(errs) > 0 {
				return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(errs, ";"))
			}
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(ips.Host), nil
	case "status.hostIPs":
		return strings.Join(ips.Host, ","), nil
	case "status.podIP":
		return first(ips.Pod), nil
	case "status.podIPs":
		return strings.Join(ips.Pod, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// Resource returns the value of a resourceFieldRef in units of its divisor, rounded up. A container without limit gets
// the pod's limit or else what the node can give.
func Resource(pod *corev1.Pod, containerName string, ref *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if ref.ContainerName != "" {
		containerName = ref.ContainerName
	}
	c := find(pod, containerName)
	if c == nil {
		return "", fmt.Errorf("container %s not found", containerName)
	}
	kind, name, ok := strings.Cut(ref.Resource, ".")
	if !ok || kind != "limits" && kind != "requests" || !supported(corev1.ResourceName(name)) {
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	var q resource.Quantity
	if kind == "requests" {
		q = c.Resources.Requests[corev1.ResourceName(name)]
	} else {
		q = limit(pod, c, corev1.ResourceName(name), allocatable)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(corev1.ResourceCPU) {
		return ceil(q.MilliValue(), divisor.MilliValue()), nil
	}
	return ceil(q.Value(), divisor.Value()), nil
}

func limit(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName, allocatable corev1.ResourceList) resource.Quantity {
	if q, ok := c.Resources.Limits[name]; ok && !q.IsZero() {
		return q
	}
	if pod.Spec.Resources != nil {
		if q, ok := pod.Spec.Resources.Limits[name]; ok {
			return q
		}
	}
	// A huge page limit is never the node's: pages are only given to those who ask.
	if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return resource.Quantity{}
	}
	return allocatable[name]
}

func supported(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func find(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return (*corev1.Container)(&c.EphemeralContainerCommon)
		}
	}
	return nil
}

func ceil(value, divisor int64) string {
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(divisor))), 10)
}

func subscript(path string) (field, key string, ok bool) {
	rest, closed := strings.CutSuffix(path, "']")
	if !closed {
		return "", "", false
	}
	return strings.Cut(rest, "['")
}

func lines(m map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%v=%q", k, m[k]))
	}
	return strings.Join(list, "\n")
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

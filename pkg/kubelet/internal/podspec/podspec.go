// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podspec answers questions about a pod's spec that several parts of the kubelet ask: its containers, who is
// a sidecar, how a container is named in events. Touch it when the Pod API grows a field they share.
package podspec

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// IsSidecar says whether an init container is restartable (KEP-753): it runs beside the regular containers.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Containers yields init, regular and ephemeral containers in this order; ephemeral ones as plain containers. The
// containers are those of the pod: they must not be changed.
func Containers(pod *corev1.Pod) iter.Seq2[*corev1.Container, container.ContainerType] {
	return func(yield func(*corev1.Container, container.ContainerType) bool) {
		for i := range pod.Spec.InitContainers {
			if !yield(&pod.Spec.InitContainers[i], container.TypeInit) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i], container.TypeRegular) {
				return
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(&c, container.TypeEphemeral) {
				return
			}
		}
	}
}

// Find returns the container called name and its type, nil if the pod has none.
func Find(pod *corev1.Pod, name string) (*corev1.Container, container.ContainerType) {
	for c, t := range Containers(pod) {
		if c.Name == name {
			return c, t
		}
	}
	return nil, ""
}

// Status returns the API status of the container called name, from whichever list it is in.
func Status(st *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Hash identifies what of a running container's spec may change only by replacing it: its name and image.
func Hash(c *corev1.Container) string {
	data, err := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	if err != nil { // strings always encode
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write(data)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// FullName is how messages name a pod: name_namespace(uid).
func FullName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// Ref refers to a container of a pod, for events.
func Ref(pod *corev1.Pod, name string) *corev1.ObjectReference {
	ref := PodRef(pod)
	switch _, t := Find(pod, name); t {
	case container.TypeInit:
		ref.FieldPath = fmt.Sprintf("spec.initContainers{%s}", name)
	case container.TypeEphemeral:
		ref.FieldPath = fmt.Sprintf("spec.ephemeralContainers{%s}", name)
	default:
		ref.FieldPath = fmt.Sprintf("spec.containers{%s}", name)
	}
	return ref
}

// PodRef refers to a pod, for events.
func PodRef(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod",
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}

// RecursiveReadOnly says whether a mount is read-only with all that is mounted in it (KEP-3857), where what runs the pod's containers
// can do that or not. The errors are upstream's.
func RecursiveReadOnly(m *corev1.VolumeMount, supported bool) (bool, error) {
	mode := ptr.Deref(m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled)
	switch {
	case mode == corev1.RecursiveReadOnlyDisabled:
		return false, nil
	case !m.ReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", m.Name)
	case ptr.Deref(m.MountPropagation, corev1.MountPropagationNone) != corev1.MountPropagationNone:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", m.Name, *m.MountPropagation)
	case mode == corev1.RecursiveReadOnlyIfPossible:
		return supported, nil
	case mode != corev1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("unknown recursive read-only mode %q", mode)
	case !supported:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
	}
	return true, nil
}

// IsTerminal says whether the API already knows that the pod has ended for good.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// CriticalPriority is from where on a priority makes a pod critical: that of the class system-cluster-critical.
const CriticalPriority = 2_000_000_000

// annotationSource is where a kubelet has a pod from; that of pods of the API is "api".
const annotationSource = "kubernetes.io/config.source"

// IsStatic says whether the node has a pod from elsewhere than the API: from a file, or an address.
func IsStatic(pod *corev1.Pod) bool {
	source := pod.Annotations[annotationSource]
	return source != "" && source != "api"
}

// IsCritical says whether the cluster or the node relies on a pod, so that the node never ends it to free resources: by its
// priority, or because it is the node's own (a static pod, or the mirror of one).
func IsCritical(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	if IsStatic(pod) {
		return true
	}
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= CriticalPriority
}

// Limited says whether there is a limit to what a pod as a whole takes of a resource: the pod has one itself, or all of its
// containers have.
func Limited(pod *corev1.Pod, name corev1.ResourceName) bool {
	if resource.IsPodLevelLimitsSet(pod) {
		if q, ok := pod.Spec.Resources.Limits[name]; ok && !q.IsZero() {
			return true
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if q := c.Resources.Limits[name]; q.IsZero() {
				return false
			}
		}
	}
	return true
}

// Claimed says whether a container has a resource by a claim for devices, not from a device plugin (KEP-5004).
func Claimed(pod *corev1.Pod, name string, res corev1.ResourceName) bool {
	s := pod.Status.ExtendedResourceClaimStatus
	return s != nil && slices.ContainsFunc(s.RequestMappings, func(r corev1.ContainerExtendedResourceRequest) bool {
		return r.ContainerName == name && r.ResourceName == string(res)
	})
}

// Unclaimed is the pod without what Claimed tells of, which is a copy if there is any.
func Unclaimed(pod *corev1.Pod) *corev1.Pod {
	if pod.Status.ExtendedResourceClaimStatus == nil {
		return pod
	}
	pod = pod.DeepCopy()
	for c := range Containers(pod) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			maps.DeleteFunc(list, func(res corev1.ResourceName, _ apiresource.Quantity) bool { return Claimed(pod, c.Name, res) })
		}
	}
	return pod
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// Reason is that of the status of evicted pods and of their events.
const Reason = "Evicted"

// Annotations of the event.
const (
	annotationContainers      = "offending_containers"
	annotationContainersUsage = "offending_containers_usage"
	annotationPod             = "offending_pod"
	annotationPodUsage        = "offending_pod_usage"
	annotationStarved         = "starved_resource"
)

// message tells why a pod is ended for a threshold, with the annotations of the event.
func message(pod *corev1.Pod, usage *statsv1alpha1.PodStats, t Threshold, o Observations) (text string, annotations map[string]string) {
	name := kinds[t.Signal].resource
	text = fmt.Sprintf("The node was low on resource: %v. ", name)
	if seen, ok := o[t.Signal]; ok {
		limit := t.Value.Of(seen.Capacity)
		text += fmt.Sprintf("Threshold quantity: %v, available: %v. ", &limit, &seen.Available)
	}
	annotations = map[string]string{}
	if usage == nil {
		return text, annotations
	}
	if name == corev1.ResourceMemory && resourcehelper.IsPodLevelResourcesSet(pod) && usage.Memory != nil {
		if request, ok := pod.Spec.Resources.Requests[name]; ok {
			used := memoryOf(usage.Memory)
			text += fmt.Sprintf("Pod %s was using %s, request is %s, has larger consumption of %v. ", pod.Name, &used, &request, name)
			annotations[annotationPod], annotations[annotationPodUsage] = pod.Name, used.String()
		}
	}
	var names, amounts []string
	for i := range usage.Containers {
		c := &usage.Containers[i]
		spec, kind := podspec.Find(pod, c.Name)
		used, ok := consumption(c, name)
		if spec == nil || kind == container.TypeEphemeral || !ok { // an ephemeral one cannot request anything, and is not blamed for that
			continue
		}
		request := spec.Resources.Requests[name]
		if used.Cmp(request) > 0 {
			text += fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of %v. ", c.Name, &used, &request, name)
			names, amounts = append(names, c.Name), append(amounts, used.String())
		}
	}
	annotations[annotationContainers], annotations[annotationContainersUsage] = strings.Join(names, ","), strings.Join(amounts, ",")
	annotations[annotationStarved] = string(name)
	return text, annotations
}

// consumption is what a container uses of a resource of which containers are told apart.
func consumption(c *statsv1alpha1.ContainerStats, name corev1.ResourceName) (resource.Quantity, bool) {
	switch {
	case name == corev1.ResourceMemory && c.Memory != nil && c.Memory.WorkingSetBytes != nil:
		return memoryOf(c.Memory), true
	case name == corev1.ResourceEphemeralStorage && c.Rootfs != nil && c.Rootfs.UsedBytes != nil && c.Logs != nil && c.Logs.UsedBytes != nil:
		return *resource.NewQuantity(bytesOf(c.Rootfs)+bytesOf(c.Logs), resource.BinarySI), true
	}
	return resource.Quantity{}, false
}

// Limited is what has to be measured to hold a pod to its limits of local storage.
func Limited(pod *corev1.Pod) Scope {
	if _, ok := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]; ok {
		return Scope{Volumes: true, Containers: true}
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; IsLocal(v) && v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0 {
			return Scope{Volumes: true}
		}
	}
	return Scope{}
}

// Signals of the limits of pods, of which no thresholds can be.
const (
	signalEmptyDir  Signal = "emptydirfs.limit"
	signalPod       Signal = "ephemeralpodfs.limit"
	signalContainer Signal = "ephemeralcontainerfs.limit"
)

// exceeded tells which limit of local storage a pod has exceeded, "" for none. dedicated: the containers' file systems are not
// where logs and volumes are, and do not count for the containers' own limits.
func exceeded(pod *corev1.Pod, usage *statsv1alpha1.PodStats, dedicated bool) (limit Signal, text string) {
	if text := volumeExceeded(pod, usage); text != "" {
		return signalEmptyDir, text
	}
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	if limit, ok := limits[corev1.ResourceEphemeralStorage]; ok {
		used := diskOf(pod, usage, measured{true, true, true}, corev1.ResourceEphemeralStorage)
		if used.Cmp(limit) > 0 {
			return signalPod, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", &limit)
		}
	}
	for i := range usage.Containers {
		c := &usage.Containers[i]
		used := bytesOf(c.Logs)
		if !dedicated {
			used += bytesOf(c.Rootfs)
		}
		spec, kind := podspec.Find(pod, c.Name)
		if spec == nil || kind != container.TypeRegular && !podspec.IsSidecar(spec) {
			continue
		}
		if limit := spec.Resources.Limits.StorageEphemeral(); !limit.IsZero() && limit.CmpInt64(used) < 0 {
			return signalContainer, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit)
		}
	}
	return "", ""
}

func volumeExceeded(pod *corev1.Pod, usage *statsv1alpha1.PodStats) string {
	used := map[string]int64{}
	for i := range usage.VolumeStats {
		used[usage.VolumeStats[i].Name] = bytesOf(&usage.VolumeStats[i].FsStats)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		if limit := v.EmptyDir.SizeLimit; limit.CmpInt64(used[v.Name]) < 0 {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit)
		}
	}
	return ""
}

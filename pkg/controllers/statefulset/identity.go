// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

var memberName = regexp.MustCompile("^(.*)-([0-9]+)$")

// member splits the name of a pod into that of its set and its ordinal; the ordinal of a stranger is -1.
func member(podName string) (setName string, ordinal int) {
	parts := memberName.FindStringSubmatch(podName)
	if parts == nil {
		return "", -1
	}
	n, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return parts[1], -1
	}
	return parts[1], int(n)
}

// isMember reports whether the pod is called like one of the set.
func isMember(set *appsv1.StatefulSet, pod metav1.Object) bool {
	name, _ := member(pod.GetName())
	return name == set.Name
}

func ordinalOf(pod *corev1.Pod) int {
	_, ordinal := member(pod.Name)
	return ordinal
}

func replicasOf(set *appsv1.StatefulSet) int { return int(ptr.Deref(set.Spec.Replicas, 1)) }

// firstOrdinal is the ordinal of the set's first pod.
func firstOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// inRange reports whether the set wants a pod of this ordinal.
func inRange(set *appsv1.StatefulSet, ordinal int) bool {
	first := firstOrdinal(set)
	return ordinal >= first && ordinal < first+replicasOf(set)
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

func claimName(set *appsv1.StatefulSet, template string, ordinal int) string {
	return template + "-" + podName(set, ordinal)
}

// UsesClaim reports whether a claim is called like one that a pod of the set has.
func UsesClaim(set *appsv1.StatefulSet, name string) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		rest, ok := strings.CutPrefix(name, set.Spec.VolumeClaimTemplates[i].Name+"-")
		if owner, ordinal := member(rest); ok && owner == set.Name && ordinal >= 0 {
			return true
		}
	}
	return false
}

// NewPod returns a pod of the set that is made from the template and belongs to the revision of that name.
func NewPod(set *appsv1.StatefulSet, template *corev1.PodTemplateSpec, revision string, ordinal int) *corev1.Pod {
	pod := pods.FromTemplate(template, set, *metav1.NewControllerRef(set, kind))
	pod.Name = podName(set, ordinal)
	identify(pod)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname = pod.Name
	pod.Spec.Subdomain = set.Spec.ServiceName
	mountClaims(set, pod)
	return pod
}

// identify labels the pod with its name and number, by which Services choose single pods.
func identify(pod *corev1.Pod) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinalOf(pod))
}

// isIdentified reports whether the pod carries its name. Like upstream it asks for no more, so that pods made before there was
// a label for the number are left alone.
func isIdentified(pod *corev1.Pod) bool {
	return pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name
}

// mountClaims gives the pod a volume for each claim template, in place of a volume of that name.
func mountClaims(set *appsv1.StatefulSet, pod *corev1.Pod) {
	var volumes []corev1.Volume
	claimed := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		claimed[name] = true
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, name, ordinalOf(pod))},
		}})
	}
	for _, volume := range pod.Spec.Volumes {
		if !claimed[volume.Name] {
			volumes = append(volumes, volume)
		}
	}
	pod.Spec.Volumes = volumes
}

// hasClaims reports whether the pod has the volumes that mountClaims gives.
func hasClaims(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		mounted := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claimName(set, name, ordinalOf(pod))
		})
		if !mounted {
			return false
		}
	}
	return true
}

// claimsOf returns the claims of a pod as they are created.
func claimsOf(set *appsv1.StatefulSet, pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	claims := make([]*corev1.PersistentVolumeClaim, len(set.Spec.VolumeClaimTemplates))
	for i := range set.Spec.VolumeClaimTemplates {
		c := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		c.Name, c.Namespace = claimName(set, c.Name, ordinalOf(pod)), set.Namespace
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		maps.Copy(c.Labels, set.Spec.Selector.MatchLabels)
		claims[i] = c
	}
	return claims
}

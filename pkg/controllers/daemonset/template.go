// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/history"
)

// generationLabel is the label of pods that stood for their revision before there were ControllerRevisions.
const generationLabel = "pod-template-generation"

// tolerated are the taints that no daemon pod minds: it belongs to the node and shares its troubles.
var tolerated = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// tolerations returns those of a pod spec and those that all daemon pods have. A pod in the host's network may also be what
// brings the node's network up.
func tolerations(spec *corev1.PodSpec) []corev1.Toleration {
	all := slices.Clone(spec.Tolerations)
	added := tolerated
	if spec.HostNetwork {
		added = append(slices.Clone(added), corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	for i := range added {
		there := false
		for at := range all {
			// Each of several counts, and one that is for a time only would have the pod evicted.
			if all[at].MatchToleration(&added[i]) {
				all[at], there = added[i], true
			}
		}
		if !there {
			all = append(all, added[i])
		}
	}
	return all
}

// PodTemplate returns the template of the DaemonSet's pods: with the tolerations of daemons and the label of their revision.
func PodTemplate(ds *appsv1.DaemonSet, hash string) *corev1.PodTemplateSpec {
	template := ds.Spec.Template.DeepCopy()
	template.Spec.Tolerations = tolerations(&template.Spec)
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if generation, ok := templateGeneration(ds); ok {
		labels[generationLabel] = generation
	}
	if hash != "" {
		labels[history.HashLabel] = hash
	}
	template.Labels = labels
	return template
}

// templateGeneration is the number in the deprecated annotation which clients of old API versions still read.
func templateGeneration(ds *appsv1.DaemonSet) (string, bool) {
	generation, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return "", false
	}
	return strconv.FormatInt(generation, 10), true
}

// isUpdated reports whether the pod is of the present template.
func isUpdated(ds *appsv1.DaemonSet, pod *corev1.Pod, hash string) bool {
	if hash != "" && pod.Labels[history.HashLabel] == hash {
		return true
	}
	generation, ok := templateGeneration(ds)
	return ok && pod.Labels[generationLabel] == generation
}

// Pin returns an affinity to exactly one node, so that the scheduler can place the pod only there. What the template asks of
// nodes has been checked already and is replaced.
func Pin(affinity *corev1.Affinity, node string) *corev1.Affinity {
	affinity = affinity.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
	return affinity
}

// target returns the node that the pod is on or is pinned to.
func target(pod *corev1.Pod) (string, error) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, nil
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
					return field.Values[0], nil
				}
			}
		}
	}
	return "", fmt.Errorf("no node name found for pod %s/%s", pod.Namespace, pod.Name)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeLabelKeys adds the values that the pod has for matchLabelKeys and mismatchLabelKeys to the selectors of its
// affinity (KEP-3633), once, at creation.
func MergeLabelKeys(pod *corev1.Pod) {
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	merge := func(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm) {
		for i := range must {
			mergeTerm(&must[i], pod.Labels)
		}
		for i := range prefer {
			mergeTerm(&prefer[i].PodAffinityTerm, pod.Labels)
		}
	}
	if t := a.PodAffinity; t != nil {
		merge(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if t := a.PodAntiAffinity; t != nil {
		merge(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func mergeTerm(t *corev1.PodAffinityTerm, labels map[string]string) {
	AddLabels(t.LabelSelector, t.MatchLabelKeys, labels, metav1.LabelSelectorOpIn)
	AddLabels(t.LabelSelector, t.MismatchLabelKeys, labels, metav1.LabelSelectorOpNotIn)
}

// AddLabels adds a requirement for each key that labels have; a nil selector is left alone.
func AddLabels(selector *metav1.LabelSelector, keys []string, labels map[string]string, op metav1.LabelSelectorOperator) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}

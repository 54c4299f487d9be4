// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package toleration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Merge returns the tolerations of both lists, without those that another one includes.
func Merge(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var out []corev1.Toleration
	for i, t := range all {
		included := func(o corev1.Toleration) bool { return includes(&o, &t) }
		wider := func(o corev1.Toleration) bool { return !apiequality.Semantic.DeepEqual(o, t) && includes(&o, &t) }
		if !slices.ContainsFunc(out, included) && !slices.ContainsFunc(all[i+1:], wider) {
			out = append(out, t)
		}
	}
	return out
}

// Allowed tells whether each toleration is included in one of the list. An empty list allows everything.
func Allowed(tolerations, list []corev1.Toleration) bool {
	if len(list) == 0 {
		return true
	}
	for _, t := range tolerations {
		if !slices.ContainsFunc(list, func(o corev1.Toleration) bool { return includes(&o, &t) }) {
			return false
		}
	}
	return true
}

// includes tells whether o tolerates all that t does.
func includes(o, t *corev1.Toleration) bool {
	if apiequality.Semantic.DeepEqual(o, t) {
		return true
	}
	everyKey := o.Key == "" && o.Operator == corev1.TolerationOpExists
	switch {
	case o.Key != t.Key && !everyKey:
		return false
	case o.Effect != t.Effect && o.Effect != "":
		return false
	case o.Effect == corev1.TaintEffectNoExecute && o.TolerationSeconds != nil && (t.TolerationSeconds == nil || *t.TolerationSeconds > *o.TolerationSeconds):
		return false
	}
	switch o.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == o.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodelabel knows the labels of nodes that have been renamed, so that whoever still selects by the old ones can be
// warned. Touch it when a label is renamed.
package nodelabel

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// successors are the new names by the old ones, with the release that brought them.
var successors = map[string]struct{ since, name string }{
	"beta.kubernetes.io/arch":           {"v1.14", corev1.LabelArchStable},
	"beta.kubernetes.io/os":             {"v1.14", corev1.LabelOSStable},
	corev1.LabelFailureDomainBetaRegion: {"v1.17", corev1.LabelTopologyRegion},
	corev1.LabelFailureDomainBetaZone:   {"v1.17", corev1.LabelTopologyZone},
	corev1.LabelInstanceType:            {"v1.17", corev1.LabelInstanceTypeStable},
}

// Successor is the new name of a label.
func Successor(key string) (name string, ok bool) {
	s, ok := successors[key]
	return s.name, ok
}

// Deprecation tells what to use instead of a label that has been renamed.
func Deprecation(key string) (text string, ok bool) {
	s, ok := successors[key]
	return fmt.Sprintf("deprecated since %s; use %q instead", s.since, s.name), ok
}

// SelectorWarnings warns of renamed labels in a selector of nodes.
func SelectorWarnings(s *metav1.LabelSelector, path *field.Path) []string {
	if s == nil {
		return nil
	}
	var out []string
	for i, e := range s.MatchExpressions {
		if text, ok := Deprecation(e.Key); ok {
			out = append(out, fmt.Sprintf("%s: %s is %s", path.Child("matchExpressions").Index(i).Child("key"), e.Key, text))
		}
	}
	for key := range s.MatchLabels {
		if text, ok := Deprecation(key); ok {
			out = append(out, fmt.Sprintf("%s: %s", path.Child("matchLabels").Child(key), text))
		}
	}
	return out
}

// TermWarnings warns of renamed labels in the terms of a node selector.
func TermWarnings(terms []corev1.NodeSelectorTerm, path *field.Path) []string {
	var out []string
	for i, t := range terms {
		for j, e := range t.MatchExpressions {
			if text, ok := Deprecation(e.Key); ok {
				out = append(out, fmt.Sprintf("%s: %s is %s", path.Index(i).Child("matchExpressions").Index(j).Child("key"), e.Key, text))
			}
		}
	}
	return out
}

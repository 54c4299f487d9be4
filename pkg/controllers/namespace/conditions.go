// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// conditions returns old with the five conditions that describe the outcome of a pass. Conditions of others stay, and the
// transition time only moves with the status.
func conditions(old []corev1.NamespaceCondition, o outcome, now time.Time) []corev1.NamespaceCondition {
	merged := slices.Clone(old)
	for _, wanted := range []corev1.NamespaceCondition{
		discoveryFailure(o), versionFailure(o), contentFailure(o), contentRemaining(o), finalizersRemaining(o),
	} {
		wanted.LastTransitionTime = metav1.NewTime(now)
		i := slices.IndexFunc(merged, func(c corev1.NamespaceCondition) bool { return c.Type == wanted.Type })
		if i < 0 {
			merged = append(merged, wanted)
			continue
		}
		if merged[i].Status == wanted.Status {
			wanted.LastTransitionTime = merged[i].LastTransitionTime
		}
		merged[i] = wanted
	}
	return merged
}

func is(t corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
	return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

func isNot(t corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
	return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message}
}

func discoveryFailure(o outcome) corev1.NamespaceCondition {
	const t = corev1.NamespaceDeletionDiscoveryFailure
	if o.discovery == nil {
		return isNot(t, "ResourcesDiscovered", "All resources successfully discovered")
	}
	message := o.discovery.Error()
	if groups, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](o.discovery); ok {
		message = fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(groups.Groups), groups)
	}
	return is(t, "DiscoveryFailed", message)
}

func versionFailure(o outcome) corev1.NamespaceCondition {
	const t = corev1.NamespaceDeletionGVParsingFailure
	if o.versions == nil {
		return isNot(t, "ParsedGroupVersions", "All legacy kube types successfully parsed")
	}
	return is(t, "GroupVersionParsingFailed", o.versions.Error())
}

func contentFailure(o outcome) corev1.NamespaceCondition {
	const t = corev1.NamespaceDeletionContentFailure
	if len(o.deletion) == 0 {
		return isNot(t, "ContentDeleted", "All content successfully deleted, may be waiting on finalization")
	}
	messages := make([]string, len(o.deletion))
	for i, err := range o.deletion {
		messages[i] = err.Error()
	}
	slices.Sort(messages)
	return is(t, "ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(messages), strings.Join(messages, ", ")))
}

func contentRemaining(o outcome) corev1.NamespaceCondition {
	const t = corev1.NamespaceContentRemaining
	if len(o.remaining) == 0 {
		return isNot(t, "ContentRemoved", "All content successfully removed")
	}
	return is(t, "SomeResourcesRemain", "Some resources are remaining: "+list(o.remaining, "%s has %d resource instances"))
}

func finalizersRemaining(o outcome) corev1.NamespaceCondition {
	const t = corev1.NamespaceFinalizersRemaining
	if len(o.finalizers) == 0 {
		return isNot(t, "ContentHasNoFinalizers", "All content-preserving finalizers finished")
	}
	return is(t, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+list(o.finalizers, "%s in %d resource instances"))
}

// list renders the counts in a stable order.
func list(counts map[string]int, format string) string {
	items := make([]string, 0, len(counts))
	for name, n := range counts {
		items = append(items, fmt.Sprintf(format, name, n))
	}
	slices.Sort(items)
	return strings.Join(items, ", ")
}

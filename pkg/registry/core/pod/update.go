// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/toleration"
)

var updatable = strings.Join([]string{
	"`spec.containers[*].image`",
	"`spec.initContainers[*].image`",
	"`spec.activeDeadlineSeconds`",
	"`spec.tolerations` (only additions to existing tolerations)",
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
}, ",")

func validateUpdate(_ context.Context, p, old *corev1.Pod) field.ErrorList {
	errs := validateAgain(p, old)
	errs = append(errs, validateAnnotationUpdate(p, old)...)
	if len(p.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(specPath.Child("containers"), "pod updates may not add or remove containers"))
	}
	if len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(specPath.Child("initContainers"), "pod updates may not add or remove containers"))
	}
	later := validateDeadline(p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds)
	if errs = append(errs, later...); len(later) > 0 && p.Spec.ActiveDeadlineSeconds != nil {
		return errs
	}
	errs = append(errs, toleration.ValidateOnlyAdded(p.Spec.Tolerations, old.Spec.Tolerations, specPath.Child("tolerations"))...)
	errs = append(errs, validateGatesOnlyRemoved(p.Spec.SchedulingGates, old.Spec.SchedulingGates)...)
	if apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
		return errs
	}
	s := frozen(p, old)
	if len(old.Spec.SchedulingGates) > 0 {
		errs = append(errs, freeGated(s, &old.Spec)...)
	}
	if !apiequality.Semantic.DeepEqual(*s, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, fmt.Sprintf("pod updates may not change fields other than %s\n%v", updatable, cmp.Diff(old.Spec, *s))))
	}
	return errs
}

// frozen is the new spec with everything that may change set back, so that only what may not is left to differ.
func frozen(p, old *corev1.Pod) *corev1.PodSpec {
	s := p.Spec.DeepCopy()
	for i := range s.Containers {
		s.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	s.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	s.SchedulingGates = old.Spec.SchedulingGates
	s.Tolerations = old.Spec.Tolerations
	before, now := old.Spec.TerminationGracePeriodSeconds, s.TerminationGracePeriodSeconds
	if before != nil && *before < 0 && now != nil && *now == 1 {
		s.TerminationGracePeriodSeconds = before
	}
	return s
}

// validateDeadline lets the deadline come nearer only.
func validateDeadline(now, old *int64) field.ErrorList {
	path := specPath.Child("activeDeadlineSeconds")
	switch {
	case now == nil && old != nil:
		return field.ErrorList{field.Invalid(path, now, "must not update from a positive integer to nil value")}
	case now == nil:
		return nil
	case *now < 0 || *now > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *now, validation.InclusiveRangeError(0, math.MaxInt32))}
	case old != nil && *old < *now:
		return field.ErrorList{field.Invalid(path, *now, "must be less than or equal to previous value")}
	}
	return nil
}

func validateGatesOnlyRemoved(now, old []corev1.PodSchedulingGate) field.ErrorList {
	var errs field.ErrorList
	for i, g := range now {
		if !slices.Contains(old, g) {
			errs = append(errs, field.Forbidden(specPath.Child("schedulingGates").Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	return errs
}

// freeGated sets back what may become stricter while a pod waits at its scheduling gates (KEP-3838): node selector and
// node affinity; and refuses what would loosen them.
func freeGated(s, old *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(s.NodeSelector, old.NodeSelector) {
		for key, value := range old.NodeSelector {
			if now, ok := s.NodeSelector[key]; !ok || now != value {
				errs = append(errs, field.Invalid(specPath.Child("nodeSelector"), s.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
				break
			}
		}
		s.NodeSelector = old.NodeSelector
	}
	now, before := nodeAffinity(s), nodeAffinity(old)
	if apiequality.Semantic.DeepEqual(now, before) {
		return errs
	}
	errs = append(errs, validateStricter(now, before)...)
	switch {
	case s.Affinity == nil: // and before is not nil
		s.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && s.Affinity.PodAffinity == nil && s.Affinity.PodAntiAffinity == nil:
		s.Affinity = nil
	default:
		s.Affinity.NodeAffinity = before
	}
	return errs
}

func nodeAffinity(s *corev1.PodSpec) *corev1.NodeAffinity {
	if s.Affinity == nil {
		return nil
	}
	return s.Affinity.NodeAffinity
}

// validateStricter lets required node affinity be added, and its terms get more requirements at their end.
func validateStricter(now, old *corev1.NodeAffinity) field.ErrorList {
	path := specPath.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	if old == nil || old.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	var terms []corev1.NodeSelectorTerm
	if now != nil && now.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	path = path.Child("nodeSelectorTerms")
	before := old.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(before) > 0 && len(before) != len(terms) {
		return field.ErrorList{field.Invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	var errs field.ErrorList
	for i := range before {
		filled := isEmpty(before[i]) && !isEmpty(terms[i]) // an empty term matches nothing
		if filled || !extends(terms[i].MatchExpressions, before[i].MatchExpressions) || !extends(terms[i].MatchFields, before[i].MatchFields) {
			errs = append(errs, field.Invalid(path.Index(i), terms[i], "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

func isEmpty(t corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions)+len(t.MatchFields) == 0 }

func extends(now, old []corev1.NodeSelectorRequirement) bool {
	if len(old) == 0 {
		return true
	}
	return len(now) >= len(old) && apiequality.Semantic.DeepEqual(now[:len(old)], old)
}

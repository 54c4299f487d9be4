// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

func validate(_ context.Context, n *corev1.Node) field.ErrorList {
	errs := validateTaints(n.Spec.Taints, field.NewPath("spec", "taints"))
	errs = append(errs, validateResources(n)...)
	path := field.NewPath("spec", "podCIDRs")
	for i, cidr := range n.Spec.PodCIDRs {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), cidr)...)
	}
	if len(n.Spec.PodCIDRs) > 0 && n.Spec.PodCIDR != n.Spec.PodCIDRs[0] {
		errs = append(errs, field.Invalid(field.NewPath("spec", "podCIDR"), n.Spec.PodCIDR, "must be the first of podCIDRs"))
	}
	if len(n.Spec.PodCIDRs) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs)
		if err != nil || !dual || len(n.Spec.PodCIDRs) > 2 {
			errs = append(errs, field.Invalid(path, n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family"))
		}
	}
	return errs
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type key struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[key]bool{}
	for i, t := range taints {
		at := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, strings.Join(msgs, ";")))
		}
		effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
		switch {
		case t.Effect == "":
			errs = append(errs, field.Required(at.Child("effect"), ""))
		case !slices.Contains(effects, t.Effect):
			errs = append(errs, field.NotSupported(at.Child("effect"), t.Effect, effects))
		}
		k := key{t.Key, t.Effect}
		if seen[k] {
			dup := field.Duplicate(at, t)
			dup.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, dup)
		}
		seen[k] = true
	}
	return errs
}

func validateResources(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	check := func(name string, list corev1.ResourceList) {
		for r, q := range list {
			at := field.NewPath("status", name).Key(string(r))
			if q.Cmp(resource.Quantity{}) < 0 {
				errs = append(errs, field.Invalid(at, q.String(), "must be greater than or equal to 0").WithOrigin("minimum"))
			}
			if wholeOnly(string(r)) && q.MilliValue()%1000 != 0 {
				errs = append(errs, field.Invalid(at, q.String(), "must be an integer"))
			}
		}
	}
	check("capacity", n.Status.Capacity)
	check("allocatable", n.Status.Allocatable)
	return errs
}

// wholeOnly tells which resources cannot be split: pods and whatever is not a native resource.
func wholeOnly(name string) bool {
	if name == string(corev1.ResourcePods) {
		return true
	}
	prefix, _, qualified := strings.Cut(name, "/")
	return qualified && !strings.Contains(prefix, "kubernetes.io")
}

func validateUpdate(ctx context.Context, n, old *corev1.Node) field.ErrorList {
	errs := validate(ctx, n)
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range n.Status.Addresses {
		if seen[a] {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), a))
		}
		seen[a] = true
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	if n.Spec.ConfigSource != nil && !apiequality.Semantic.DeepEqual(n.Spec.ConfigSource, old.Spec.ConfigSource) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "configSource"), "configSource may not be set, the feature is removed"))
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "node updates may only change labels, taints, or capacity (or configSource, if the DynamicKubeletConfig feature gate is enabled)"))
	}
	return errs
}

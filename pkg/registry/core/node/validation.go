// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	netutils "k8s.io/utils/net"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// taintsAnnotation held taints before they had a field.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

var declaredFeature = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

func validate(_ context.Context, n *corev1.Node) field.ErrorList {
	meta, path := field.NewPath("metadata"), field.NewPath("spec", "podCIDRs")
	errs := validateEverywhere(n)
	if s := n.Status.NodeInfo.Swap; s != nil && s.Capacity != nil && *s.Capacity <= 0 {
		errs = append(errs, field.Invalid(meta.Child("nodeSwapStatus", "capacity"), *s.Capacity, "must be greater than zero"))
	}
	for i, cidr := range n.Spec.PodCIDRs {
		errs = append(errs, validation.IsValidCIDRForLegacyField(path.Index(i), cidr, true, nil)...)
	}
	if len(n.Spec.PodCIDRs) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs)
		if err != nil {
			errs = append(errs, field.InternalError(path, err))
		}
		if !dual || len(n.Spec.PodCIDRs) > 2 {
			errs = append(errs, field.Invalid(path, n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family"))
		}
	}
	return errs
}

// validateEverywhere is checked on writes of status, too. Taints are said to be in the metadata, as upstream does.
func validateEverywhere(n *corev1.Node) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := validateAnnotations(n.Annotations, meta.Child("annotations"))
	errs = append(errs, validateTaints(n.Spec.Taints, meta.Child("taints"))...)
	for _, l := range []struct {
		name string
		list corev1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for _, r := range quantity.Names(l.list) {
			errs = append(errs, quantity.ValidateValue(r, l.list[r], field.NewPath("status", l.name, string(r)))...)
		}
	}
	return append(errs, validateDeclaredFeatures(n.Status.DeclaredFeatures, field.NewPath("status", "declaredFeatures"))...)
}

// validateAnnotations checks those that once stood for fields.
func validateAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := annotations[taintsAnnotation]; s != "" {
		var taints []corev1.Taint
		if err := json.Unmarshal([]byte(s), &taints); err != nil {
			errs = append(errs, field.Invalid(path, taintsAnnotation, err.Error()))
		}
		errs = append(errs, validateTaints(taints, path.Child(taintsAnnotation))...)
	}
	if annotations[corev1.PreferAvoidPodsAnnotationKey] == "" {
		return errs
	}
	avoid, err := schedulinghelpers.GetAvoidPodsFromNodeAnnotations(annotations)
	if err != nil {
		return append(errs, field.Invalid(path.Child("AvoidPods"), corev1.PreferAvoidPodsAnnotationKey, err.Error()))
	}
	for i, pod := range avoid.PreferAvoidPods {
		at := path.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		switch c := pod.PodSignature.PodController; {
		case c == nil:
			errs = append(errs, field.Required(at, ""))
		case c.Controller == nil || !*c.Controller:
			errs = append(errs, field.Invalid(at.Child("PodController", "Controller"), false, "must point to a controller"))
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

func validateDeclaredFeatures(names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		switch {
		case len(name) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf("invalid feature name %q: must be no more than %d characters", name, validation.DNS1123SubdomainMaxLength)))
		case !declaredFeature.MatchString(name):
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, "+
				"with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)))
		}
		if i == 0 {
			continue
		}
		switch before := names[i-1]; {
		case before == name:
			errs = append(errs, field.Duplicate(path.Index(i), name))
		case before > name:
			errs = append(errs, field.Invalid(path.Index(i), name, "list must be sorted alphabetically"))
		}
	}
	return errs
}

func validateUpdate(ctx context.Context, n, old *corev1.Node) field.ErrorList {
	return append(validate(ctx, n), validateChange(ctx, n, old)...)
}

// validateChange is all that writes of status are checked for.
func validateChange(_ context.Context, n, old *corev1.Node) field.ErrorList {
	spec, status := field.NewPath("spec"), field.NewPath("status")
	errs := validateEverywhere(n)
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range n.Status.Addresses {
		if seen[a] {
			errs = append(errs, field.Duplicate(status.Child("addresses").Index(i), a))
		}
		seen[a] = true
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(spec.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	switch before, id := old.Spec.ProviderID, n.Spec.ProviderID; {
	case before != "" && id == "":
		errs = append(errs, field.Invalid(spec.Child("providerID"), nil, "field cannot be cleared once set"))
	case before != "" && id != before:
		errs = append(errs, field.Invalid(spec.Child("providerID"), nil, "field cannot be modified once set"))
	}
	if s := n.Spec.ConfigSource; s != nil {
		errs = append(errs, validateConfigSource(s, spec.Child("configSource"), notInSpec)...)
	}
	if c := n.Status.Config; c != nil {
		at := status.Child("config")
		for _, s := range []struct {
			name   string
			source *corev1.NodeConfigSource
		}{{"assigned", c.Assigned}, {"active", c.Active}, {"lastKnownGood", c.LastKnownGood}} {
			if s.source != nil {
				errs = append(errs, validateConfigSource(s.source, at.Child(s.name), neededInStatus)...)
			}
		}
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	return errs
}

// validateConfigSource checks what is left of dynamic kubelet configuration, in nodes that have it from former times.
func validateConfigSource(s *corev1.NodeConfigSource, path *field.Path, version func(*corev1.ConfigMapNodeConfigSource, *field.Path) field.ErrorList) field.ErrorList {
	c := s.ConfigMap
	if c == nil {
		return field.ErrorList{field.Invalid(path, s, "exactly one reference subfield must be non-nil")}
	}
	at := path.Child("configMap")
	errs := version(c, at)
	for _, f := range []struct {
		name, value string
		valid       func(string) []string
	}{
		{"namespace", c.Namespace, func(s string) []string { return apivalidation.ValidateNamespaceName(s, false) }},
		{"name", c.Name, func(s string) []string { return apivalidation.NameIsDNSSubdomain(s, false) }},
		{"kubeletConfigKey", c.KubeletConfigKey, validation.IsConfigMapKey},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(at.Child(f.name), ""))
			continue
		}
		for _, msg := range f.valid(f.value) {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, msg))
		}
	}
	return errs
}

func notInSpec(c *corev1.ConfigMapNodeConfigSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.UID != "" {
		errs = append(errs, field.Forbidden(path.Child("uid"), "uid must not be set in spec"))
	}
	if c.ResourceVersion != "" {
		errs = append(errs, field.Forbidden(path.Child("resourceVersion"), "resourceVersion must not be set in spec"))
	}
	return errs
}

func neededInStatus(c *corev1.ConfigMapNodeConfigSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.UID == "" {
		errs = append(errs, field.Required(path.Child("uid"), ""))
	}
	if c.ResourceVersion == "" {
		errs = append(errs, field.Required(path.Child("resourceVersion"), ""))
	}
	return errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// standard are the names without a domain that can be limited; objects of any kind are count/RESOURCE.GROUP.
var standard = sets.New[corev1.ResourceName](
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
	corev1.ResourcePersistentVolumeClaims, corev1.ResourceConfigMaps, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
)

// compute is what pods ask for and a quota of chosen pods may limit.
var compute = sets.New[corev1.ResourceName](
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
)

// whole are counted in whole numbers.
var whole = sets.New[corev1.ResourceName](
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
	corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
)

var scopes = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
	corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
	corev1.ResourceQuotaScopeVolumeAttributesClass,
}

func validate(_ context.Context, q *corev1.ResourceQuota) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateAmounts(q.Spec.Hard, path.Child("hard"))
	errs = append(errs, validateScopes(&q.Spec, path)...)
	return append(errs, validateSelector(&q.Spec, path.Child("scopeSelector", "matchExpressions"))...)
}

func validateAmounts(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, q := range list {
		at := path.Key(string(name))
		errs = append(errs, quantity.ValidateName(name, at)...)
		if !strings.Contains(string(name), "/") && !standard.Has(name) && !strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) &&
			!strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for quota"))
		}
		if q.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Invalid(at, q.String(), "must be greater than or equal to 0"))
		}
		if (whole.Has(name) || strings.HasPrefix(string(name), "count/")) && q.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, q.String(), "must be an integer"))
		}
	}
	return errs
}

func validateScopes(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	if len(spec.Scopes) == 0 {
		return nil
	}
	at := path.Child("scopes")
	var errs field.ErrorList
	for _, s := range spec.Scopes {
		if !slices.Contains(scopes, s) {
			errs = append(errs, field.Invalid(at, spec.Scopes, "unsupported scope"))
		}
		for name := range spec.Hard {
			if !limits(s, name) {
				errs = append(errs, field.Invalid(at, spec.Scopes, "unsupported scope applied to resource"))
			}
		}
	}
	if conflict(spec.Scopes) {
		errs = append(errs, field.Invalid(at, spec.Scopes, "conflicting scopes"))
	}
	return errs
}

// conflict tells whether no pod is of all the scopes.
func conflict(scopes []corev1.ResourceQuotaScope) bool {
	both := func(a, b corev1.ResourceQuotaScope) bool {
		return slices.Contains(scopes, a) && slices.Contains(scopes, b)
	}
	return both(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort) ||
		both(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating)
}

// limits tells whether a quota of the scope can limit a resource: the scopes are about pods, of best effort ones only the
// number, or about claims. Resources that are no standard ones, such as counts of objects, are not looked at.
func limits(s corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	if !standard.Has(name) {
		return true
	}
	switch s {
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return name == corev1.ResourcePods || compute.Has(name)
	}
	return true
}

func validateSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	if spec.ScopeSelector == nil {
		return nil
	}
	var errs field.ErrorList
	fixed := []corev1.ResourceQuotaScope{
		corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
	}
	var selected []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		selected = append(selected, r.ScopeName)
		if !slices.Contains(scopes, r.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for name := range spec.Hard {
			if !limits(r.ScopeName, name) {
				errs = append(errs, field.Invalid(path, spec.ScopeSelector, "unsupported scope applied to resource"))
			}
		}
		if slices.Contains(fixed, r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator,
				"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	if conflict(selected) {
		errs = append(errs, field.Invalid(path, spec.Scopes, "conflicting scopes"))
	}
	return errs
}

func validateUpdate(ctx context.Context, q, old *corev1.ResourceQuota) field.ErrorList {
	errs := validate(ctx, q)
	if !apiequality.Semantic.DeepEqual(sets.New(q.Spec.Scopes...), sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), q.Spec.Scopes, "field is immutable"))
	}
	return errs
}

func validateStatus(_ context.Context, q, _ *corev1.ResourceQuota) field.ErrorList {
	errs := validateAmounts(q.Status.Hard, field.NewPath("status", "hard"))
	return append(errs, validateAmounts(q.Status.Used, field.NewPath("status", "used"))...)
}

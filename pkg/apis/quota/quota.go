// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package quota tells what objects use up of a ResourceQuota: which names each kind counts under, how much one object takes
// and in which scopes it is. Admission and the resourcequota controller both go by it. Touch it when another kind or
// resource is to be limited. See https://kubernetes.io/docs/concepts/policy/resource-quotas/.
package quota

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// countPrefix begins the names that any kind can be counted under.
const countPrefix = "count/"

// Kind is a kind of object that quotas can limit.
type Kind struct {
	Resource schema.GroupResource
	// Counts reports whether objects of the kind use up the named resource.
	Counts func(name corev1.ResourceName) bool
	// Usage is what an object takes. It fails on an object of another kind.
	Usage func(obj runtime.Object, now time.Time) (corev1.ResourceList, error)
	// InScope reports whether an object is in a scope; nil for kinds which are in none.
	InScope func(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error)
	// Moves reports whether an update may have put an object into other scopes; nil for kinds that stay where they are.
	Moves func(before, after runtime.Object) bool
	// Require returns an error for an object that does not say how much it takes of what is limited; nil for kinds that
	// need not say.
	Require func(required []corev1.ResourceName, obj runtime.Object) error
	// Updates reports whether an update of the object, rather than only its creation, can use up more.
	Updates bool
	// Plain kinds take one of each name per object: to count them no more than their metadata is needed.
	Plain bool
}

// Kinds are those which are counted under names of their own. Every other kind has a name that begins with count/ only, see
// Plain. What claims for devices take is looked up in devices.
func Kinds(devices Devices) []Kind {
	kinds := []Kind{pods, services, claims, deviceClaims(devices)}
	for _, name := range []corev1.ResourceName{corev1.ResourceConfigMaps, corev1.ResourceSecrets, corev1.ResourceReplicationControllers, corev1.ResourceQuotas} {
		kinds = append(kinds, Plain(corev1.Resource(string(name)), name))
	}
	return kinds
}

// Plain is a kind of which only the number is limited, by the name count/RESOURCE.GROUP and the given ones.
func Plain(gr schema.GroupResource, names ...corev1.ResourceName) Kind {
	names = append(slices.Clone(names), countName(gr))
	return Kind{
		Resource: gr,
		Plain:    true,
		Counts:   func(name corev1.ResourceName) bool { return slices.Contains(names, name) },
		Usage: func(runtime.Object, time.Time) (corev1.ResourceList, error) {
			used := corev1.ResourceList{}
			for _, name := range names {
				used[name] = count(1)
			}
			return used, nil
		},
	}
}

// For returns the kinds that the names of a quota speak of.
func For(hard corev1.ResourceList, devices Devices) []Kind {
	var kinds []Kind
	known := map[schema.GroupResource]bool{}
	for _, kind := range Kinds(devices) {
		known[kind.Resource] = true
		if len(kind.Matching(hard)) > 0 {
			kinds = append(kinds, kind)
		}
	}
	for name := range hard {
		if counted, ok := strings.CutPrefix(string(name), countPrefix); ok {
			if gr := schema.ParseGroupResource(counted); !known[gr] {
				kinds = append(kinds, Plain(gr))
			}
		}
	}
	return kinds
}

// Matching returns the names in the list that the kind counts under, sorted.
func (k Kind) Matching(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range list {
		if k.Counts(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Scopes are the scopes of a quota in one form.
func Scopes(spec *corev1.ResourceQuotaSpec) []corev1.ScopedResourceSelectorRequirement {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, scope := range spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		scopes = append(scopes, spec.ScopeSelector.MatchExpressions...)
	}
	return scopes
}

// InScopes reports whether an object is in all the scopes.
func (k Kind) InScopes(scopes []corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	for _, scope := range scopes {
		if k.InScope == nil {
			return false, nil
		}
		if in, err := k.InScope(scope, obj); err != nil || !in {
			return false, err
		}
	}
	return true, nil
}

// Sum adds up what the objects of a namespace take of a quota. list returns the objects of a kind; the names that a kind
// counts under are left out when that fails, and the error says why.
func Sum(spec *corev1.ResourceQuotaSpec, devices Devices, list func(Kind) ([]runtime.Object, error), now time.Time) (corev1.ResourceList, error) {
	used := corev1.ResourceList{}
	scopes := Scopes(spec)
	var errs []error
	var unknown []corev1.ResourceName
	for _, kind := range For(spec.Hard, devices) {
		sum, err := kind.sum(spec.Hard, scopes, list, now)
		if err != nil {
			errs = append(errs, err)
			unknown = append(unknown, kind.Matching(spec.Hard)...)
			continue
		}
		Add(used, sum)
	}
	for _, name := range unknown { // another kind may count under it as well
		delete(used, name)
	}
	return used, errors.Join(errs...)
}

func (k Kind) sum(hard corev1.ResourceList, scopes []corev1.ScopedResourceSelectorRequirement, list func(Kind) ([]runtime.Object, error), now time.Time) (corev1.ResourceList, error) {
	sum := corev1.ResourceList{}
	for _, name := range k.Matching(hard) {
		sum[name] = resource.Quantity{Format: resource.DecimalSI}
	}
	objects, err := list(k)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		in, err := k.InScopes(scopes, obj)
		if err != nil {
			return nil, err
		}
		if !in {
			continue
		}
		used, err := k.Usage(obj, now)
		if err != nil {
			return nil, err
		}
		Add(sum, Mask(used, hard))
	}
	return sum, nil
}

// Add adds b to a.
func Add(a, b corev1.ResourceList) {
	for name, amount := range b {
		sum, ok := a[name]
		if !ok {
			a[name] = amount.DeepCopy()
			continue
		}
		sum.Add(amount)
		a[name] = sum
	}
}

// Mask returns what of the list is named in names too.
func Mask(list, names corev1.ResourceList) corev1.ResourceList {
	masked := corev1.ResourceList{}
	for name, amount := range list {
		if _, ok := names[name]; ok {
			masked[name] = amount.DeepCopy()
		}
	}
	return masked
}

// Equal reports whether two lists name the same amounts, however they are written.
func Equal(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, amount := range a {
		other, ok := b[name]
		if !ok || amount.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

func count(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

func countName(gr schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + gr.String())
}

// selects reports whether one of the values of a scope satisfies its requirement; no value at all satisfies only NotIn and
// DoesNotExist.
func selects(scope corev1.ScopedResourceSelectorRequirement, values ...string) (bool, error) {
	operators := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	operator, ok := operators[scope.Operator]
	if !ok {
		return false, errors.New("\"" + string(scope.Operator) + "\" is not a valid scope selector operator")
	}
	requirement, err := labels.NewRequirement(string(scope.ScopeName), operator, scope.Values)
	if err != nil {
		return false, err
	}
	if len(values) == 0 {
		return requirement.Matches(labels.Set{}), nil
	}
	return slices.ContainsFunc(values, func(value string) bool {
		return requirement.Matches(labels.Set{string(scope.ScopeName): value})
	}), nil
}

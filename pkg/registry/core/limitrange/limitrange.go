// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package limitrange serves LimitRanges: bounds and defaults for what pods and claims of a namespace request. Touch it
// when their rules change; the limitranger admission plugin applies them.
package limitrange

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes limitranges.
var Resource = &registry.Resource[*corev1.LimitRange]{
	Kind:                corev1.SchemeGroupVersion.WithKind("LimitRange"),
	Name:                "limitranges",
	ShortNames:          []string{"limits"},
	New:                 func() *corev1.LimitRange { return &corev1.LimitRange{} },
	NewList:             func() runtime.Object { return &corev1.LimitRangeList{} },
	WholeUpdate:         true,
	AllowCreateOnUpdate: true,
	Default:             setDefaults,
	// A nameless one gets a name.
	PrepareForCreate: func(_ context.Context, l *corev1.LimitRange) {
		if l.Name == "" {
			l.Name = string(uuid.NewUUID())
		}
	},
	Validate: validate,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Created At", "date", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]),
	},
	Row: func(l *corev1.LimitRange) []any {
		return []any{l.Name, l.CreationTimestamp.UTC().Format(time.RFC3339)}
	},
}

// setDefaults completes the bounds of containers from one another.
func setDefaults(l *corev1.LimitRange) {
	fill := func(to *corev1.ResourceList, from corev1.ResourceList) {
		for name, q := range from {
			if _, ok := (*to)[name]; ok {
				continue
			}
			if *to == nil {
				*to = corev1.ResourceList{}
			}
			(*to)[name] = q.DeepCopy()
		}
	}
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		if item.Default == nil {
			item.Default = corev1.ResourceList{}
		}
		if item.DefaultRequest == nil {
			item.DefaultRequest = corev1.ResourceList{}
		}
		fill(&item.Default, item.Max)
		fill(&item.DefaultRequest, item.Default)
		fill(&item.DefaultRequest, item.Min)
	}
}

func validate(_ context.Context, l *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.LimitType]()
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		path := field.NewPath("spec", "limits").Index(i)
		errs = append(errs, validateType(item.Type, path.Child("type"))...)
		if seen.Has(item.Type) {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		seen.Insert(item.Type)
		errs = append(errs, validateItem(item, path)...)
	}
	return errs
}

func validateType(t corev1.LimitType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(string(t)) {
		errs = append(errs, field.Invalid(path, t, msg))
	}
	standard := []corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim}
	if len(errs) == 0 && !strings.Contains(string(t), "/") && !slices.Contains(standard, t) {
		errs = append(errs, field.Invalid(path, t, "must be a standard limit type or fully qualified"))
	}
	return errs
}

func validateItem(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	lists := []struct {
		name string
		list corev1.ResourceList
	}{
		{"max", item.Max}, {"min", item.Min}, {"default", item.Default}, {"defaultRequest", item.DefaultRequest}, {"maxLimitRequestRatio", item.MaxLimitRequestRatio},
	}
	names := sets.New[corev1.ResourceName]()
	if item.Type == corev1.LimitTypePod {
		if len(item.Default) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(item.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
	}
	for _, l := range lists {
		if item.Type == corev1.LimitTypePod && strings.HasPrefix(l.name, "default") {
			continue
		}
		for _, name := range quantity.Names(l.list) {
			names.Insert(name)
			at := path.Child(l.name).Key(string(name))
			if item.Type == corev1.LimitTypeContainer || item.Type == corev1.LimitTypePod {
				errs = append(errs, quantity.ValidateContainerName(name, at)...)
			} else {
				errs = append(errs, quantity.ValidateName(name, at)...)
			}
		}
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, low := item.Min[corev1.ResourceStorage]
		_, high := item.Max[corev1.ResourceStorage]
		if !low && !high {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	for _, name := range sets.List(names) {
		errs = append(errs, validateOrder(item, name, path)...)
	}
	return errs
}

// validateOrder wants min <= default request <= default <= max, and a ratio that these allow.
func validateOrder(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	type bound struct {
		field, text string
		q           resource.Quantity
		ok          bool
	}
	get := func(field, text string, list corev1.ResourceList) bound {
		q, ok := list[name]
		return bound{field, text, q, ok}
	}
	low, high := get("min", "min", item.Min), get("max", "max", item.Max)
	request, limit := get("defaultRequest", "default request", item.DefaultRequest), get("default", "default", item.Default)
	if item.Type == corev1.LimitTypePod {
		request.ok, limit.ok = false, false // refused as a whole
	}
	var errs field.ErrorList
	inOrder := func(a, b, at bound) {
		if a.ok && b.ok && a.q.Cmp(b.q) > 0 {
			errs = append(errs, field.Invalid(path.Child(at.field).Key(string(name)), at.q.String(),
				fmt.Sprintf("%s value %s is greater than %s value %s", a.text, a.q.String(), b.text, b.q.String())))
		}
	}
	inOrder(low, high, low)
	inOrder(low, request, request)
	inOrder(request, high, request)
	asLimit := limit
	asLimit.text = "default limit"
	inOrder(request, asLimit, request)
	// Of these two upstream names the bound as the invalid value.
	inOrder(low, limit, bound{field: limit.field, q: low.q})
	inOrder(limit, high, bound{field: limit.field, q: high.q})
	if !quantity.IsOvercommitAllowed(name) && limit.ok && request.ok && limit.q.Cmp(request.q) != 0 {
		errs = append(errs, field.Invalid(path.Child("defaultRequest").Key(string(name)), request.q.String(),
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.q.String(), request.q.String(), name)))
	}
	ratio, ok := item.MaxLimitRequestRatio[name]
	if !ok {
		return errs
	}
	at := path.Child("maxLimitRequestRatio").Key(string(name))
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(at, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	if low.ok && high.ok && !low.q.IsZero() {
		if most := high.q.AsApproximateFloat64() / low.q.AsApproximateFloat64(); ratio.AsApproximateFloat64() > most {
			errs = append(errs, field.Invalid(at, ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), most)))
		}
	}
	return errs
}

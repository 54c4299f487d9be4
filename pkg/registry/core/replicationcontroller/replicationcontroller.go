// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicationcontroller serves ReplicationControllers, the forerunners of ReplicaSets. Touch it when their rules
// change.
package replicationcontroller

import (
	"context"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
	"minik8s.io/minik8s/pkg/registry/scale"
)

var docs = corev1.ReplicationControllerStatus{}.SwaggerDoc()

// Resource describes replicationcontrollers. Pods outlive them unless the client says otherwise, as they always did.
var Resource = &registry.Resource[*corev1.ReplicationController]{
	Kind:                     corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	Name:                     "replicationcontrollers",
	ShortNames:               []string{"rc"},
	Categories:               []string{"all"},
	New:                      func() *corev1.ReplicationController { return &corev1.ReplicationController{} },
	NewList:                  func() runtime.Object { return &corev1.ReplicationControllerList{} },
	DefaultGarbageCollection: rest.OrphanDependents,
	Default:                  setDefaults,
	ValidateName:             validateName,
	PrepareForCreate:         func(_ context.Context, r *corev1.ReplicationController) { dropDisabled(r, nil) },
	PrepareForUpdate:         func(_ context.Context, r, old *corev1.ReplicationController) { dropDisabled(r, old.Spec.Template) },
	Validate:                 func(_ context.Context, r *corev1.ReplicationController) field.ErrorList { return validate(r, nil) },
	ValidateUpdate: func(_ context.Context, r, old *corev1.ReplicationController) field.ErrorList {
		return validate(r, old.Spec.Template)
	},
	Warnings: warnings,
	Spec:     func(r *corev1.ReplicationController) any { return r.Spec },
	Status:   &registry.Status[*corev1.ReplicationController]{Validate: validateStatus},
	Fields: registry.Fields[*corev1.ReplicationController]{
		"status.replicas": func(r *corev1.ReplicationController) string { return strconv.Itoa(int(r.Status.Replicas)) },
	},
	Columns: append([]metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Desired", "integer", corev1.ReplicationControllerSpec{}.SwaggerDoc()["replicas"]),
		registry.Column("Current", "integer", docs["replicas"]),
		registry.Column("Ready", "integer", docs["readyReplicas"]),
		registry.AgeColumn,
	}, workload.WideColumns(corev1.ReplicationControllerSpec{}.SwaggerDoc()["selector"])...),
	Row: func(r *corev1.ReplicationController) []any {
		spec := &corev1.PodSpec{}
		if r.Spec.Template != nil {
			spec = &r.Spec.Template.Spec
		}
		return append([]any{
			r.Name, int64(ptr.Deref(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), registry.Age(r.CreationTimestamp),
		}, workload.WideCells(spec, labels.FormatLabels(r.Spec.Selector))...)
	},
	Subresources: func(s *registry.Store[*corev1.ReplicationController], _ registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"scale": scale.New(s, corev1.SchemeGroupVersion, scale.Fields[*corev1.ReplicationController]{
			Desired: func(r *corev1.ReplicationController) *int32 { return r.Spec.Replicas },
			Current: func(r *corev1.ReplicationController) int32 { return r.Status.Replicas },
			Selector: func(r *corev1.ReplicationController) (string, error) {
				return labels.Set(r.Spec.Selector).String(), nil
			},
		})}, nil
	},
}

// validateName judges only the name that is made of a generateName.
func validateName(name string, prefix bool) []string {
	if prefix {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

func warnings(_ context.Context, r, old *corev1.ReplicationController) []string {
	t := r.Spec.Template
	var out []string
	if old == nil {
		out = workload.NameWarnings(r.Name)
	} else if r.Generation == old.Generation {
		return nil
	} else {
		t = old.Spec.Template // upstream looks at the template that is about to go
	}
	if t == nil {
		return out
	}
	return append(out, podtemplate.Warnings(&t.ObjectMeta, &t.Spec, field.NewPath("spec", "template"))...)
}

// setDefaults lets the selector and the controller's own labels default to those of the template.
func setDefaults(r *corev1.ReplicationController) {
	if r.Spec.Replicas == nil {
		r.Spec.Replicas = new(int32(1))
	}
	t := r.Spec.Template
	if t == nil {
		return
	}
	podtemplate.SetDefaults(t)
	if len(t.Labels) == 0 {
		return
	}
	if len(r.Spec.Selector) == 0 {
		r.Spec.Selector = maps.Clone(t.Labels)
	}
	if len(r.Labels) == 0 {
		r.Labels = maps.Clone(t.Labels)
	}
}

func dropDisabled(r *corev1.ReplicationController, oldTemplate *corev1.PodTemplateSpec) {
	if r.Spec.Template != nil {
		podtemplate.DropDisabled(r.Spec.Template, oldTemplate)
	}
}

// validate checks a controller; oldTemplate is its template before an update.
func validate(r *corev1.ReplicationController, oldTemplate *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := workload.ValidateNonnegative(path,
		workload.Number{Name: "minReadySeconds", Value: int64(r.Spec.MinReadySeconds)},
		workload.Number{Name: "replicas", Value: int64(ptr.Deref(r.Spec.Replicas, 0))})
	selector := labels.Set(r.Spec.Selector).AsSelectorPreValidated()
	if selector.Empty() {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	if r.Spec.Template == nil {
		return append(errs, field.Required(path.Child("template"), ""))
	}
	return append(errs, workload.ValidateTemplate(r.Spec.Template, oldTemplate, selector, path.Child("template"))...)
}

func validateStatus(_ context.Context, r, _ *corev1.ReplicationController) field.ErrorList {
	path := field.NewPath("status")
	s := &r.Status
	parts := []workload.Number{
		{Name: "fullyLabeledReplicas", Value: int64(s.FullyLabeledReplicas)},
		{Name: "readyReplicas", Value: int64(s.ReadyReplicas)},
		{Name: "availableReplicas", Value: int64(s.AvailableReplicas)},
	}
	errs := workload.ValidateNonnegative(path, append([]workload.Number{
		{Name: "replicas", Value: int64(s.Replicas)}, {Name: "observedGeneration", Value: s.ObservedGeneration},
	}, parts...)...)
	for _, n := range parts {
		if n.Value > int64(s.Replicas) {
			errs = append(errs, field.Invalid(path.Child(n.Name), n.Value, "cannot be greater than status.replicas"))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return errs
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicaset serves ReplicaSets: so many pods of one template. Touch it when their rules change.
package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
	"minik8s.io/minik8s/pkg/registry/scale"
)

var docs = appsv1.ReplicaSetStatus{}.SwaggerDoc()

// Resource describes replicasets.
var Resource = &registry.Resource[*appsv1.ReplicaSet]{
	Kind:       appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	Name:       "replicasets",
	ShortNames: []string{"rs"},
	Categories: []string{"all"},
	New:        func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} },
	NewList:    func() runtime.Object { return &appsv1.ReplicaSetList{} },
	Default: func(r *appsv1.ReplicaSet) {
		if r.Spec.Replicas == nil {
			r.Spec.Replicas = new(int32(1))
		}
		podtemplate.SetDefaults(&r.Spec.Template)
	},
	PrepareForCreate: func(_ context.Context, r *appsv1.ReplicaSet) { podtemplate.DropDisabled(&r.Spec.Template, nil) },
	PrepareForUpdate: func(_ context.Context, r, old *appsv1.ReplicaSet) {
		podtemplate.DropDisabled(&r.Spec.Template, &old.Spec.Template)
	},
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings: func(_ context.Context, r, old *appsv1.ReplicaSet) []string {
		var out []string
		if old == nil {
			out = workload.NameWarnings(r.Name)
		} else if r.Generation == old.Generation {
			return nil
		}
		return append(out, podtemplate.Warnings(&r.Spec.Template.ObjectMeta, &r.Spec.Template.Spec, field.NewPath("spec", "template"))...)
	},
	Spec:   func(r *appsv1.ReplicaSet) any { return r.Spec },
	Status: &registry.Status[*appsv1.ReplicaSet]{Validate: validateStatus},
	Columns: append([]metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Desired", "integer", appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]),
		registry.Column("Current", "integer", docs["replicas"]),
		registry.Column("Ready", "integer", docs["readyReplicas"]),
		registry.AgeColumn,
	}, workload.WideColumns(appsv1.ReplicaSetSpec{}.SwaggerDoc()["selector"])...),
	Row: func(r *appsv1.ReplicaSet) []any {
		return append([]any{
			r.Name, int64(ptr.Deref(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), registry.Age(r.CreationTimestamp),
		}, workload.WideCells(&r.Spec.Template.Spec, metav1.FormatLabelSelector(r.Spec.Selector))...)
	},
	Subresources: func(s *registry.Store[*appsv1.ReplicaSet], _ registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"scale": scale.New(s, appsv1.SchemeGroupVersion, scale.Fields[*appsv1.ReplicaSet]{
			Desired: func(r *appsv1.ReplicaSet) *int32 { return r.Spec.Replicas },
			Current: func(r *appsv1.ReplicaSet) int32 { return r.Status.Replicas },
			Selector: func(r *appsv1.ReplicaSet) (string, error) {
				selector, err := metav1.LabelSelectorAsSelector(r.Spec.Selector)
				if err != nil {
					return "", err
				}
				return selector.String(), nil
			},
		})}, nil
	},
}

func validate(_ context.Context, r *appsv1.ReplicaSet) field.ErrorList { return validateAll(r, nil) }

func validateAll(r *appsv1.ReplicaSet, oldTemplate *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := workload.ValidateNonnegative(path,
		workload.Number{Name: "replicas", Value: int64(ptr.Deref(r.Spec.Replicas, 0))},
		workload.Number{Name: "minReadySeconds", Value: int64(r.Spec.MinReadySeconds)})
	return append(errs, workload.ValidateSelector(r.Spec.Selector, &r.Spec.Template, oldTemplate, "deployment", path)...)
}

func validateUpdate(_ context.Context, r, old *appsv1.ReplicaSet) field.ErrorList {
	errs := validateAll(r, &old.Spec.Template)
	return append(errs, apivalidation.ValidateImmutableField(r.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

func validateStatus(_ context.Context, r, _ *appsv1.ReplicaSet) field.ErrorList {
	path := field.NewPath("status")
	s := &r.Status
	errs := workload.ValidateNonnegative(path,
		workload.Number{Name: "replicas", Value: int64(s.Replicas)},
		workload.Number{Name: "fullyLabeledReplicas", Value: int64(s.FullyLabeledReplicas)},
		workload.Number{Name: "readyReplicas", Value: int64(s.ReadyReplicas)},
		workload.Number{Name: "availableReplicas", Value: int64(s.AvailableReplicas)},
		workload.Number{Name: "terminatingReplicas", Value: int64(ptr.Deref(s.TerminatingReplicas, 0))},
		workload.Number{Name: "observedGeneration", Value: s.ObservedGeneration})
	for _, n := range []workload.Number{
		{Name: "fullyLabeledReplicas", Value: int64(s.FullyLabeledReplicas)},
		{Name: "readyReplicas", Value: int64(s.ReadyReplicas)},
		{Name: "availableReplicas", Value: int64(s.AvailableReplicas)},
	} {
		if n.Value > int64(s.Replicas) {
			errs = append(errs, field.Invalid(path.Child(n.Name), n.Value, "cannot be greater than status.replicas"))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return errs
}

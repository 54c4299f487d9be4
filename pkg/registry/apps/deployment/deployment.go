// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package deployment serves Deployments: pods of a template that is replaced step by step. Touch it when their rules
// change.
package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
	"minik8s.io/minik8s/pkg/registry/scale"
)

var docs = appsv1.DeploymentStatus{}.SwaggerDoc()

// Resource describes deployments.
var Resource = &registry.Resource[*appsv1.Deployment]{
	Kind:             appsv1.SchemeGroupVersion.WithKind("Deployment"),
	Name:             "deployments",
	ShortNames:       []string{"deploy"},
	Categories:       []string{"all"},
	New:              func() *appsv1.Deployment { return &appsv1.Deployment{} },
	NewList:          func() runtime.Object { return &appsv1.DeploymentList{} },
	Default:          setDefaults,
	PrepareForCreate: func(_ context.Context, d *appsv1.Deployment) { podtemplate.DropDisabled(&d.Spec.Template, nil) },
	PrepareForUpdate: func(_ context.Context, d, old *appsv1.Deployment) {
		podtemplate.DropDisabled(&d.Spec.Template, &old.Spec.Template)
	},
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings: func(_ context.Context, d, old *appsv1.Deployment) []string {
		var out []string
		if old == nil {
			out = workload.NameWarnings(d.Name)
		} else if d.Generation == old.Generation {
			return nil
		}
		return append(out, podtemplate.Warnings(&d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec, field.NewPath("spec", "template"))...)
	},
	Spec: func(d *appsv1.Deployment) any { return d.Spec },
	// Annotations are copied to replica sets, so the controller must see that they changed.
	GenerationOnAnnotations: true,
	Status: &registry.Status[*appsv1.Deployment]{
		PrepareForUpdate: func(_ context.Context, d, old *appsv1.Deployment) { d.Labels = old.Labels },
		Validate:         validateStatus,
		ResetFields:      []string{"spec", "metadata.labels"},
	},
	Columns: append([]metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Ready", "string", "Number of the pod with ready state"),
		registry.Column("Up-to-date", "string", docs["updatedReplicas"]),
		registry.Column("Available", "string", docs["availableReplicas"]),
		registry.AgeColumn,
	}, workload.WideColumns(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"])...),
	Row: func(d *appsv1.Deployment) []any {
		return append([]any{
			d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, ptr.Deref(d.Spec.Replicas, 0)),
			int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas), registry.Age(d.CreationTimestamp),
		}, workload.WideCells(&d.Spec.Template.Spec, metav1.FormatLabelSelector(d.Spec.Selector))...)
	},
	Subresources: func(s *registry.Store[*appsv1.Deployment], _ registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"scale": scale.New(s, appsv1.SchemeGroupVersion, scale.Fields[*appsv1.Deployment]{
			Desired: func(d *appsv1.Deployment) *int32 { return d.Spec.Replicas },
			Current: func(d *appsv1.Deployment) int32 { return d.Status.Replicas },
			Selector: func(d *appsv1.Deployment) (string, error) {
				selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
				if err != nil {
					return "", err
				}
				return selector.String(), nil
			},
		})}, nil
	},
}

func setDefaults(d *appsv1.Deployment) {
	if v, ok := d.Annotations[appsv1.DeprecatedRollbackTo]; ok && v == "" {
		delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	}
	spec := &d.Spec
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.Strategy.Type == "" {
		spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if spec.Strategy.RollingUpdate == nil {
			spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		r := spec.Strategy.RollingUpdate
		if r.MaxUnavailable == nil {
			r.MaxUnavailable = new(intstr.FromString("25%"))
		}
		if r.MaxSurge == nil {
			r.MaxSurge = new(intstr.FromString("25%"))
		}
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	if spec.ProgressDeadlineSeconds == nil {
		spec.ProgressDeadlineSeconds = new(int32(600))
	}
	podtemplate.SetDefaults(&spec.Template)
}

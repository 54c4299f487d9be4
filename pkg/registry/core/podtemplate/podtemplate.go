// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtemplate serves PodTemplates: templates that stand on their own. Touch it when they get a field; the
// template itself is pkg/apis/core/podtemplate.
package podtemplate

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes podtemplates.
var Resource = &registry.Resource[*corev1.PodTemplate]{
	Kind:             corev1.SchemeGroupVersion.WithKind("PodTemplate"),
	Name:             "podtemplates",
	ReturnDeleted:    true,
	New:              func() *corev1.PodTemplate { return &corev1.PodTemplate{} },
	NewList:          func() runtime.Object { return &corev1.PodTemplateList{} },
	Default:          func(t *corev1.PodTemplate) { podtemplate.SetDefaults(&t.Template) },
	PrepareForCreate: func(_ context.Context, t *corev1.PodTemplate) { podtemplate.DropDisabled(&t.Template, nil) },
	PrepareForUpdate: func(_ context.Context, t, old *corev1.PodTemplate) {
		podtemplate.DropDisabled(&t.Template, &old.Template)
	},
	Validate: func(_ context.Context, t *corev1.PodTemplate) field.ErrorList {
		return podtemplate.Validate(&t.Template, nil, field.NewPath("template"))
	},
	ValidateUpdate: func(_ context.Context, t, old *corev1.PodTemplate) field.ErrorList {
		return podtemplate.Validate(&t.Template, &old.Template, field.NewPath("template"))
	},
	Spec: func(t *corev1.PodTemplate) any { return &t.Template },
	Warnings: func(_ context.Context, t, old *corev1.PodTemplate) []string {
		if old != nil && t.Generation == old.Generation {
			return nil
		}
		return podtemplate.Warnings(&t.Template.ObjectMeta, &t.Template.Spec, field.NewPath("template"))
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Containers", "string", "Names of each container in the template."),
		registry.Column("Images", "string", "Images referenced by each container in the template."),
		registry.Column("Pod Labels", "string", "The labels for the pod template."),
	},
	Row: row,
}

func row(t *corev1.PodTemplate) []any {
	var names, images []string
	for _, c := range t.Template.Spec.Containers {
		names, images = append(names, c.Name), append(images, c.Image)
	}
	shown := "<none>"
	if len(t.Template.Labels) > 0 {
		pairs := strings.Split(labels.Set(t.Template.Labels).String(), ",")
		slices.Sort(pairs)
		shown = strings.Join(pairs, ",")
	}
	return []any{t.Name, strings.Join(names, ","), strings.Join(images, ","), shown}
}

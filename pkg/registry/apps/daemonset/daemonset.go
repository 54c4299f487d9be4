// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemonset serves DaemonSets: one pod of a template on each node. Touch it when their rules change.
package daemonset

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

var docs = appsv1.DaemonSetStatus{}.SwaggerDoc()

// Resource describes daemonsets.
var Resource = &registry.Resource[*appsv1.DaemonSet]{
	Kind:       appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	Name:       "daemonsets",
	ShortNames: []string{"ds"},
	Categories: []string{"all"},
	New:        func() *appsv1.DaemonSet { return &appsv1.DaemonSet{} },
	NewList:    func() runtime.Object { return &appsv1.DaemonSetList{} },
	Default:    setDefaults,
	PrepareForCreate: func(_ context.Context, d *appsv1.DaemonSet) {
		podtemplate.DropDisabled(&d.Spec.Template, nil)
		setTemplateGeneration(d, max(1, templateGeneration(d)))
	},
	PrepareForUpdate: func(_ context.Context, d, old *appsv1.DaemonSet) {
		podtemplate.DropDisabled(&d.Spec.Template, &old.Spec.Template)
		n := templateGeneration(old)
		if templateChanged(d, old) {
			n++
		}
		setTemplateGeneration(d, n)
	},
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings: func(_ context.Context, d, old *appsv1.DaemonSet) []string {
		if old != nil && !templateChanged(d, old) {
			return nil
		}
		return podtemplate.Warnings(&d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec, field.NewPath("spec", "template"))
	},
	Spec: func(d *appsv1.DaemonSet) any { return d.Spec },
	Status: &registry.Status[*appsv1.DaemonSet]{
		PrepareForUpdate: func(_ context.Context, d, old *appsv1.DaemonSet) { setTemplateGeneration(d, templateGeneration(old)) },
		Validate:         validateStatus,
	},
	Columns: append([]metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Desired", "integer", docs["desiredNumberScheduled"]),
		registry.Column("Current", "integer", docs["currentNumberScheduled"]),
		registry.Column("Ready", "integer", docs["numberReady"]),
		registry.Column("Up-to-date", "integer", docs["updatedNumberScheduled"]),
		registry.Column("Available", "integer", docs["numberAvailable"]),
		registry.Column("Node Selector", "string", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		registry.AgeColumn,
	}, workload.WideColumns(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])...),
	Row: func(d *appsv1.DaemonSet) []any {
		s := &d.Status
		return append([]any{
			d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady), int64(s.UpdatedNumberScheduled),
			int64(s.NumberAvailable), labels.FormatLabels(d.Spec.Template.Spec.NodeSelector), registry.Age(d.CreationTimestamp),
		}, workload.WideCells(&d.Spec.Template.Spec, metav1.FormatLabelSelector(d.Spec.Selector))...)
	},
}

// templateGeneration counts the changes of the template. It was a field once and has lived on in an annotation since.
func templateGeneration(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

func templateChanged(d, old *appsv1.DaemonSet) bool {
	return !apiequality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template)
}

func setDefaults(d *appsv1.DaemonSet) {
	if _, ok := d.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok {
		setTemplateGeneration(d, 0)
	}
	strategy := &d.Spec.UpdateStrategy
	if strategy.Type == "" {
		strategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if strategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if strategy.RollingUpdate == nil {
			strategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		if strategy.RollingUpdate.MaxUnavailable == nil {
			strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		}
		if strategy.RollingUpdate.MaxSurge == nil {
			strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		}
	}
	if d.Spec.RevisionHistoryLimit == nil {
		d.Spec.RevisionHistoryLimit = new(int32(10))
	}
	podtemplate.SetDefaults(&d.Spec.Template)
}

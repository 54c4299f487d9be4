// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package statefulset serves StatefulSets: pods of a template that keep their names and volumes. Touch it when their
// rules change.
package statefulset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
	"minik8s.io/minik8s/pkg/registry/scale"
)

// Resource describes statefulsets.
var Resource = &registry.Resource[*appsv1.StatefulSet]{
	Kind:       appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	Name:       "statefulsets",
	ShortNames: []string{"sts"},
	Categories: []string{"all"},
	New:        func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} },
	NewList:    func() runtime.Object { return &appsv1.StatefulSetList{} },
	Default:    setDefaults,
	// Pods are called after the set, and their names are host names.
	ValidateName:     apivalidation.NameIsDNSLabel,
	PrepareForCreate: func(_ context.Context, s *appsv1.StatefulSet) { podtemplate.DropDisabled(&s.Spec.Template, nil) },
	PrepareForUpdate: func(_ context.Context, s, old *appsv1.StatefulSet) {
		podtemplate.DropDisabled(&s.Spec.Template, &old.Spec.Template)
	},
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	Spec:           func(s *appsv1.StatefulSet) any { return s.Spec },
	Status:         &registry.Status[*appsv1.StatefulSet]{Validate: validateStatus},
	Columns: append([]metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Ready", "string", "Number of the pod with ready state"),
		registry.AgeColumn,
	}, workload.ContainerColumns...),
	Row: func(s *appsv1.StatefulSet) []any {
		return append([]any{
			s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, ptr.Deref(s.Spec.Replicas, 0)), registry.Age(s.CreationTimestamp),
		}, workload.ContainerCells(&s.Spec.Template.Spec)...)
	},
	Subresources: func(s *registry.Store[*appsv1.StatefulSet], _ registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"scale": scale.New(s, appsv1.SchemeGroupVersion, scale.Fields[*appsv1.StatefulSet]{
			Desired: func(s *appsv1.StatefulSet) *int32 { return s.Spec.Replicas },
			Current: func(s *appsv1.StatefulSet) int32 { return s.Status.Replicas },
			Selector: func(s *appsv1.StatefulSet) (string, error) {
				selector, err := metav1.LabelSelectorAsSelector(s.Spec.Selector)
				if err != nil {
					return "", err
				}
				return selector.String(), nil
			},
		})}, nil
	},
}

func setDefaults(s *appsv1.StatefulSet) {
	spec := &s.Spec
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	setStrategyDefaults(&spec.UpdateStrategy)
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	retention := spec.PersistentVolumeClaimRetentionPolicy
	if retention.WhenDeleted == "" {
		retention.WhenDeleted = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if retention.WhenScaled == "" {
		retention.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	podtemplate.SetDefaults(&spec.Template)
	for i := range spec.VolumeClaimTemplates {
		setClaimDefaults(&spec.VolumeClaimTemplates[i])
	}
}

func setStrategyDefaults(s *appsv1.StatefulSetUpdateStrategy) {
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if s.RollingUpdate == nil {
			s.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := s.RollingUpdate; r != nil && s.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		if r.Partition == nil {
			r.Partition = new(int32(0))
		}
		if r.MaxUnavailable == nil {
			r.MaxUnavailable = new(intstr.FromInt32(1))
		}
	}
}

// setClaimDefaults completes a claim, which is a whole object with kind and status although it is only a template.
func setClaimDefaults(c *corev1.PersistentVolumeClaim) {
	c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	persistentvolumeclaim.SetDefaults(&c.Spec)
	quantity.SetDefaults(c.Status.Capacity)
	quantity.SetDefaults(c.Status.AllocatedResources)
}

func warnings(_ context.Context, s, old *appsv1.StatefulSet) []string {
	var out []string
	if old == nil || s.Generation != old.Generation {
		out = podtemplate.Warnings(&s.Spec.Template.ObjectMeta, &s.Spec.Template.Spec, field.NewPath("spec", "template"))
	}
	for i := range s.Spec.VolumeClaimTemplates {
		path := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		if old != nil {
			path = path.Child("Spec") // as upstream spells it
		}
		out = append(out, persistentvolumeclaim.Warnings(&s.Spec.VolumeClaimTemplates[i].Spec, path)...)
	}
	if ptr.Deref(s.Spec.RevisionHistoryLimit, 0) < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}

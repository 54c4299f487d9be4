// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageclass serves StorageClasses: the kinds of storage that claims can ask for by name. Touch it when their
// rules change.
package storageclass

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/nodelabel"
	"minik8s.io/minik8s/pkg/registry"
)

var docs = storagev1.StorageClass{}.SwaggerDoc()

// Resource describes storageclasses.
var Resource = &registry.Resource[*storagev1.StorageClass]{
	Kind:           storagev1.SchemeGroupVersion.WithKind("StorageClass"),
	Name:           "storageclasses",
	ShortNames:     []string{"sc"},
	ClusterScoped:  true,
	New:            func() *storagev1.StorageClass { return &storagev1.StorageClass{} },
	NewList:        func() runtime.Object { return &storagev1.StorageClassList{} },
	Default:        setDefaults,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	ReturnDeleted:  true,
	Configure: func(s *registry.Store[*storagev1.StorageClass], _ registry.Config) error {
		s.TableConvertor = markDefault{s.TableConvertor}
		return nil
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Provisioner", "string", docs["provisioner"]),
		registry.Column("ReclaimPolicy", "string", docs["reclaimPolicy"]),
		registry.Column("VolumeBindingMode", "string", docs["volumeBindingMode"]),
		registry.Column("AllowVolumeExpansion", "string", docs["allowVolumeExpansion"]),
		registry.AgeColumn,
	},
	Row: row,
}

func setDefaults(c *storagev1.StorageClass) {
	if c.ReclaimPolicy == nil {
		policy := corev1.PersistentVolumeReclaimDelete
		c.ReclaimPolicy = &policy
	}
	if c.VolumeBindingMode == nil {
		mode := storagev1.VolumeBindingImmediate
		c.VolumeBindingMode = &mode
	}
}

func row(c *storagev1.StorageClass) []any {
	expand := c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion
	return []any{c.Name, c.Provisioner, string(*c.ReclaimPolicy), string(*c.VolumeBindingMode), expand, registry.Age(c.CreationTimestamp)}
}

func warnings(_ context.Context, c, _ *storagev1.StorageClass) []string {
	var out []string
	for i, t := range c.AllowedTopologies {
		for j, e := range t.MatchLabelExpressions {
			if text, ok := nodelabel.Deprecation(e.Key); ok {
				out = append(out, fmt.Sprintf("%s: %s", field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key"), text))
			}
		}
	}
	return out
}

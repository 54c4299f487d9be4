// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package flowschema serves FlowSchemas, which sort requests into priority levels and flows. Touch it when their rules
// change.
package flowschema

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes flowschemas.
var Resource = &registry.Resource[*flowcontrolv1.FlowSchema]{
	Kind:          flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"),
	Name:          "flowschemas",
	ClusterScoped: true,
	New:           func() *flowcontrolv1.FlowSchema { return &flowcontrolv1.FlowSchema{} },
	NewList:       func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },
	WholeUpdate:   true,
	Default:       setDefaults,
	Validate:      validate,
	Spec:          func(f *flowcontrolv1.FlowSchema) any { return f.Spec },
	Status: &registry.Status[*flowcontrolv1.FlowSchema]{
		KeepMetadata:     true,
		PrepareForUpdate: keepMetadata,
		Validate:         validateStatus,
	},
	Columns: columns,
	Row:     row,
	Configure: func(s *registry.Store[*flowcontrolv1.FlowSchema], _ registry.Config) error {
		s.TableConvertor = inOrder{s.TableConvertor}
		return nil
	},
}

func setDefaults(f *flowcontrolv1.FlowSchema) {
	if f.Spec.MatchingPrecedence == 0 {
		f.Spec.MatchingPrecedence = 1000
	}
}

// keepMetadata leaves a status update nothing but the status and its trace in the managed fields.
func keepMetadata(_ context.Context, f, old *flowcontrolv1.FlowSchema) {
	managed := f.ManagedFields
	f.ObjectMeta = old.ObjectMeta
	f.ManagedFields = managed
}

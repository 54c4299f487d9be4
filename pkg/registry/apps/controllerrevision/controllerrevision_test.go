// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllerrevision_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry/apps/controllerrevision"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, controllerrevision.Resource, registrytest.Case[*appsv1.ControllerRevision]{
		AddToScheme: appsv1.AddToScheme,
		Valid: func() *appsv1.ControllerRevision {
			return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Data: runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}, Revision: 1}
		},
		Update: func(r *appsv1.ControllerRevision) { r.Revision = 2 },
		Invalid: []registrytest.Invalid[*appsv1.ControllerRevision]{
			{Name: "no data", Mutate: func(r *appsv1.ControllerRevision) { r.Data = runtime.RawExtension{} }, Field: "data"},
			{Name: "no object", Mutate: func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`[1]`) }, Field: "data"},
			{Name: "negative", Mutate: func(r *appsv1.ControllerRevision) { r.Revision = -1 }, Field: "revision"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*appsv1.ControllerRevision]{
			{Name: "data", Mutate: func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"a":"c"}`) }, Field: "data"},
		},
		Row: []any{"r", "<none>", int64(1)},
	})
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csinode

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	type node = storagev1.CSINode
	registrytest.Run(t, Resource, registrytest.Case[*node]{
		AddToScheme: storagev1.AddToScheme,
		Valid: func() *node {
			return &node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: "d.example.com", NodeID: "i", TopologyKeys: []string{"example.com/zone"}}},
			}}
		},
		Update: func(n *node) { n.Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(5))} },
		Row:    []any{"n", int64(1)},
		// Of the status there is nothing yet that may be written.
		StatusUpdate: func(n *node) { n.Status.StorageHealth = []storagev1.StorageHealth{{Name: "d.example.com"}} },
		Invalid: []registrytest.Invalid[*node]{
			{Name: "no name", Mutate: func(n *node) { n.Spec.Drivers[0].Name = "" }, Field: "spec.drivers[0].name"},
			{Name: "name twice", Mutate: func(n *node) { n.Spec.Drivers = append(n.Spec.Drivers, n.Spec.Drivers[0]) }, Field: "spec.drivers[1].name"},
			{Name: "no ID", Mutate: func(n *node) { n.Spec.Drivers[0].NodeID = "" }, Field: "spec.drivers[0].nodeID"},
			{Name: "long ID", Mutate: func(n *node) { n.Spec.Drivers[0].NodeID = strings.Repeat("i", 257) }, Field: "spec.drivers[0].nodeID"},
			{Name: "count", Mutate: func(n *node) {
				n.Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(-1))}
			}, Field: "spec.drivers[0].allocatable.count"},
			{Name: "topology key", Mutate: func(n *node) { n.Spec.Drivers[0].TopologyKeys[0] = "a b" }, Field: "spec.drivers[0]"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*node]{
			{Name: "ID", Mutate: func(n *node) { n.Spec.Drivers[0].NodeID = "j" }, Field: "spec.drivers"},
		},
	})
}

func TestStatus(t *testing.T) {
	health := func(c ...storagev1.StorageHealthCondition) *storagev1.CSINode {
		return &storagev1.CSINode{Status: storagev1.CSINodeStatus{StorageHealth: []storagev1.StorageHealth{{Name: "d", HealthConditions: c}}}}
	}
	fresh := health()
	prepareStatus(t.Context(), fresh, &storagev1.CSINode{})
	if len(fresh.Status.StorageHealth) > 0 {
		t.Error("health was taken where there was none")
	}
	n := health(storagev1.StorageHealthCondition{Status: "x", Reason: "a b", Message: strings.Repeat("m", 1025)})
	n.Status.StorageHealth = append(n.Status.StorageHealth, n.Status.StorageHealth[0], storagev1.StorageHealth{
		Name: "many", HealthConditions: make([]storagev1.StorageHealthCondition, maxHealthConditions+1),
	})
	n.Status.StorageHealth[1].HealthConditions = nil
	var got []string
	for _, e := range validateStatus(t.Context(), n, n) {
		got = append(got, e.Field)
	}
	const first = "status.storageHealth[0].healthConditions[0]."
	want := []string{first + "status", first + "reason", first + "message", "status.storageHealth[1]", "status.storageHealth[2].healthConditions"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields refused (-want +got):\n%s", diff)
	}
}

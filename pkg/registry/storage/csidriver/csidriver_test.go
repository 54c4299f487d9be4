// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csidriver

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	type driver = storagev1.CSIDriver
	registrytest.Run(t, Resource, registrytest.Case[*driver]{
		AddToScheme: storagev1.AddToScheme,
		Valid: func() *driver {
			return &driver{ObjectMeta: metav1.ObjectMeta{Name: "d.example.com"}, Spec: storagev1.CSIDriverSpec{
				TokenRequests: []storagev1.TokenRequest{{Audience: "a"}, {Audience: "b", ExpirationSeconds: new(int64(600))}},
			}}
		},
		Update: func(d *driver) { d.Spec.PodInfoOnMount = new(true) },
		Row:    []any{"d.example.com", true, false, false, "a,b", false, "Persistent"},
		Invalid: []registrytest.Invalid[*driver]{
			{Name: "group policy", Mutate: func(d *driver) { d.Spec.FSGroupPolicy = new(storagev1.FSGroupPolicy("x")) }, Field: "spec.fsGroupPolicy"},
			{Name: "audience twice", Mutate: func(d *driver) { d.Spec.TokenRequests[1].Audience = "a" }, Field: "spec.tokenRequests[1].audience"},
			{Name: "short token", Mutate: func(d *driver) { d.Spec.TokenRequests[1].ExpirationSeconds = new(int64(599)) }, Field: "spec.tokenRequests[1].expirationSeconds"},
			{Name: "long token", Mutate: func(d *driver) { d.Spec.TokenRequests[1].ExpirationSeconds = new(int64(1<<32 + 1)) }, Field: "spec.tokenRequests[1].expirationSeconds"},
			{Name: "lifecycle", Mutate: func(d *driver) { d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"x"} }, Field: "spec.volumeLifecycleModes"},
			{Name: "update period", Mutate: func(d *driver) { d.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(9)) }, Field: "spec.nodeAllocatableUpdatePeriodSeconds"},
			{Name: "tokens in secrets without tokens", Mutate: func(d *driver) {
				d.Spec.TokenRequests, d.Spec.ServiceAccountTokenInSecrets = nil, new(false)
			}, Field: "spec.serviceAccountTokenInSecrets"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*driver]{
			{Name: "attach", Mutate: func(d *driver) { d.Spec.AttachRequired = new(false) }, Field: "spec.attachedRequired"},
			{Name: "lifecycle", Mutate: func(d *driver) {
				d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
			}, Field: "spec.volumeLifecycleModes"},
		},
	})
}

func TestGeneration(t *testing.T) {
	old := &storagev1.CSIDriver{}
	same := old.DeepCopy()
	Resource.PrepareForUpdate(t.Context(), same, old)
	changed := old.DeepCopy()
	changed.Spec.PodInfoOnMount = new(true)
	Resource.PrepareForUpdate(t.Context(), changed, old)
	if same.Generation != 0 || changed.Generation != 1 {
		t.Errorf("generation is %d without a change and %d after one", same.Generation, changed.Generation)
	}
}

func TestWarnings(t *testing.T) {
	driver := func(inSecrets *bool, audiences ...string) *storagev1.CSIDriver {
		d := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{ServiceAccountTokenInSecrets: inSecrets}}
		for _, a := range audiences {
			d.Spec.TokenRequests = append(d.Spec.TokenRequests, storagev1.TokenRequest{Audience: a})
		}
		return d
	}
	for name, tc := range map[string]struct {
		driver, old *storagev1.CSIDriver
		want        int
	}{
		"no tokens":         {driver(nil), nil, 0},
		"tokens":            {driver(nil, "a"), nil, 1},
		"tokens in secrets": {driver(new(true), "a"), nil, 0},
		"tokens as before":  {driver(nil, "a"), driver(nil, "a"), 0},
		"other tokens":      {driver(nil, "a"), driver(nil, "b"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := warnings(t.Context(), tc.driver, tc.old); len(got) != tc.want {
				t.Errorf("warnings are %q, want %d", got, tc.want)
			}
		})
	}
}

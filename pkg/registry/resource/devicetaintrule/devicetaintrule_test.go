// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicetaintrule_test

import (
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/resource/devicetaintrule"
)

type rule = resourcev1.DeviceTaintRule

func valid() *rule {
	return &rule{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("gpu.example.com")},
			Taint:          resourcev1.DeviceTaint{Key: "example.com/broken", Value: "x", Effect: resourcev1.DeviceTaintEffectNoSchedule},
		},
	}
}

func TestResource(t *testing.T) {
	registrytest.Run(t, devicetaintrule.Resource, registrytest.Case[*rule]{
		AddToScheme: resourcev1.AddToScheme,
		Valid:       valid,
		Update:      func(r *rule) { r.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute },
		StatusUpdate: func(r *rule) {
			r.Status.Conditions = []metav1.Condition{{Type: "EvictionInProgress", Status: "True", Reason: "R", LastTransitionTime: metav1.Now()}}
		},
		Invalid: []registrytest.Invalid[*rule]{
			{Name: "key", Mutate: func(r *rule) { r.Spec.Taint.Key = "" }, Field: "spec.taint.key"},
			{Name: "value", Mutate: func(r *rule) { r.Spec.Taint.Value = "!" }, Field: "spec.taint.value"},
			{Name: "no effect", Mutate: func(r *rule) { r.Spec.Taint.Effect = "" }, Field: "spec.taint.effect"},
			{Name: "effect", Mutate: func(r *rule) { r.Spec.Taint.Effect = "x" }, Field: "spec.taint.effect"},
			{Name: "pool", Mutate: func(r *rule) { r.Spec.DeviceSelector.Pool = new("a//b") }, Field: "spec.deviceSelector.pool"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*rule]{
			{Name: "effect", Mutate: func(r *rule) { r.Spec.Taint.Effect = "x" }, Field: "spec.taint.effect"},
		},
		Row: []any{"r", "example.com/broken", "x", "NoSchedule"},
	})
}

func TestTimeFollowsTheEffect(t *testing.T) {
	before := metav1.NewTime(time.Now().Add(-time.Hour))
	old := valid()
	old.Spec.Taint.TimeAdded = &before
	for name, tc := range map[string]struct {
		mutate func(*rule)
		renews bool
	}{
		"other value":  {func(r *rule) { r.Spec.Taint.Value = "y" }, false},
		"other effect": {func(r *rule) { r.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNone }, true},
		"own time as well": {func(r *rule) {
			r.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNone
			r.Spec.Taint.TimeAdded = new(metav1.NewTime(before.Add(-time.Hour)))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := old.DeepCopy()
			tc.mutate(r)
			devicetaintrule.Resource.PrepareForUpdate(t.Context(), r, old)
			if renewed := r.Spec.Taint.TimeAdded.After(before.Time); renewed != tc.renews {
				t.Errorf("time is %s, old one %s", r.Spec.Taint.TimeAdded, before)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/resource/resourceslice"
)

type slice = resourcev1.ResourceSlice

func valid() *slice {
	return &slice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver:   "gpu.example.com",
			Pool:     resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1},
			NodeName: new("n1"),
			Devices: []resourcev1.Device{{
				Name: "gpu-0",
				Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"model":               {StringValue: new("a")},
					"example.com/version": {VersionValue: new("1.2.3-rc.1+x")},
				},
				AllowMultipleAllocations: new(true),
				Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {
					Value:         resource.MustParse("10"),
					RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("2")), ValidRange: numbers("1", "9", "1")},
				}},
				// With a time: one that the server adds is another each time that the list is applied, as upstream.
				Taints:           []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule, TimeAdded: new(metav1.Unix(1, 0))}},
				ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("1")}}}},
			}},
		},
	}
}

func numbers(low, high, step string) *resourcev1.CapacityRequestPolicyRange {
	return &resourcev1.CapacityRequestPolicyRange{Min: new(resource.MustParse(low)), Max: new(resource.MustParse(high)), Step: new(resource.MustParse(step))}
}

func first(s *slice) *resourcev1.Device { return &s.Spec.Devices[0] }

func TestResource(t *testing.T) {
	registrytest.Run(t, resourceslice.Resource, registrytest.Case[*slice]{
		AddToScheme: resourcev1.AddToScheme,
		Valid:       valid,
		Update:      func(s *slice) { s.Spec.Pool.Generation++ },
		Invalid: []registrytest.Invalid[*slice]{
			{Name: "driver", Mutate: func(s *slice) { s.Spec.Driver = "a b" }, Field: "spec.driver"},
			{Name: "no driver", Mutate: func(s *slice) { s.Spec.Driver = "" }, Field: "spec.driver"},
			{Name: "pool", Mutate: func(s *slice) { s.Spec.Pool.Name = "a/" }, Field: "spec.pool.name"},
			{Name: "count", Mutate: func(s *slice) { s.Spec.Pool.ResourceSliceCount = 0 }, Field: "spec.pool.resourceSliceCount"},
			{Name: "generation", Mutate: func(s *slice) { s.Spec.Pool.Generation = -1 }, Field: "spec.pool.generation"},
			{Name: "nowhere", Mutate: func(s *slice) { s.Spec.NodeName = nil }, Field: "spec"},
			{Name: "in two places", Mutate: func(s *slice) { s.Spec.AllNodes = new(true) }, Field: "spec"},
			{Name: "not on all nodes", Mutate: func(s *slice) { s.Spec.AllNodes = new(false) }, Field: "spec.allNodes"},
			{Name: "no term", Mutate: func(s *slice) { s.Spec.NodeName, s.Spec.NodeSelector = nil, &corev1.NodeSelector{} }, Field: "spec.nodeSelector.nodeSelectorTerms"},
			{Name: "counters and devices", Mutate: func(s *slice) { s.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "set"}} }, Field: "spec"},
			{Name: "device name", Mutate: func(s *slice) { first(s).Name = "A" }, Field: "spec.devices[0].name"},
			{Name: "device twice", Mutate: func(s *slice) { s.Spec.Devices = append(s.Spec.Devices, *first(s)) }, Field: "spec.devices[1]"},
			{Name: "too many devices", Mutate: func(s *slice) { s.Spec.Devices = slices.Repeat(s.Spec.Devices, 65) }, Field: "spec.devices"},
			{Name: "place of a device", Mutate: func(s *slice) { first(s).AllNodes = new(true) }, Field: "spec.devices[0]"},
			{Name: "no value", Mutate: func(s *slice) { first(s).Attributes["model"] = resourcev1.DeviceAttribute{} }, Field: "spec.devices[0].attributes[model]"},
			{Name: "two values", Mutate: func(s *slice) {
				first(s).Attributes["model"] = resourcev1.DeviceAttribute{IntValue: new(int64(1)), BoolValue: new(true)}
			}, Field: "spec.devices[0].attributes[model]"},
			{Name: "version", Mutate: func(s *slice) { first(s).Attributes["model"] = resourcev1.DeviceAttribute{VersionValue: new("1.2")} }, Field: "spec.devices[0].attributes[model].version"},
			{Name: "long value", Mutate: func(s *slice) {
				first(s).Attributes["model"] = resourcev1.DeviceAttribute{StringValue: new(strings.Repeat("x", 65))}
			}, Field: "spec.devices[0].attributes[model].string"},
			{Name: "attribute name", Mutate: func(s *slice) { first(s).Attributes["a-b"] = resourcev1.DeviceAttribute{IntValue: new(int64(1))} }, Field: "spec.devices[0].attributes"},
			{Name: "too many attributes", Mutate: func(s *slice) {
				for i := range 33 {
					first(s).Attributes[resourcev1.QualifiedName(fmt.Sprintf("a%d", i))] = resourcev1.DeviceAttribute{IntValue: new(int64(1))}
				}
			}, Field: "spec.devices[0]"},
			{Name: "taint", Mutate: func(s *slice) { first(s).Taints[0].Effect = "" }, Field: "spec.devices[0].taints[0].effect"},
			{Name: "counter set", Mutate: func(s *slice) { first(s).ConsumesCounters[0].CounterSet = "" }, Field: "spec.devices[0].consumesCounters[0].counterSet"},
			{Name: "no counters", Mutate: func(s *slice) { first(s).ConsumesCounters[0].Counters = nil }, Field: "spec.devices[0].consumesCounters[0].counters"},
			{Name: "policy of a whole device", Mutate: func(s *slice) { first(s).AllowMultipleAllocations = nil }, Field: "spec.devices[0].capacity[memory].requestPolicy"},
			{Name: "binding conditions overlap", Mutate: func(s *slice) {
				first(s).BindingConditions, first(s).BindingFailureConditions = []string{"a"}, []string{"a"}
			}, Field: "spec.devices[0].bindingFailureConditions[0]"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*slice]{
			{Name: "driver", Mutate: func(s *slice) { s.Spec.Driver = "b" }, Field: "spec.driver"},
			{Name: "node", Mutate: func(s *slice) { s.Spec.NodeName = new("n2") }, Field: "spec.nodeName"},
			{Name: "pool", Mutate: func(s *slice) { s.Spec.Pool.Name = "b" }, Field: "spec.pool.name"},
		},
		Row: []any{"s", "n1", "gpu.example.com", "n1"},
	})
}

func TestRequestPolicy(t *testing.T) {
	values := func(preset string, values ...string) *resourcev1.CapacityRequestPolicy {
		p := &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse(preset))}
		for _, v := range values {
			p.ValidValues = append(p.ValidValues, resource.MustParse(v))
		}
		return p
	}
	within := func(preset string, r *resourcev1.CapacityRequestPolicyRange) *resourcev1.CapacityRequestPolicy {
		return &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse(preset)), ValidRange: r}
	}
	for name, tc := range map[string]struct {
		policy *resourcev1.CapacityRequestPolicy
		fields []string
	}{
		"values":                  {policy: values("2", "1", "2", "2500m")},
		"unsorted values":         {policy: values("2", "2", "1"), fields: []string{".validValues[1]"}},
		"value twice":             {policy: values("2", "2", "2"), fields: []string{".validValues[1]"}},
		"values of the same unit": {policy: values("500m", "500m", "1"), fields: []string{".validValues[1]"}},
		"value above capacity":    {policy: values("2", "2", "11"), fields: []string{".validValues[1]"}},
		"preset not among them":   {policy: values("3", "2"), fields: []string{".validValues"}},
		"range":                   {policy: within("3", numbers("1", "9", "2"))},
		"preset beside the steps": {policy: within("2", numbers("1", "9", "2")), fields: []string{".validRange.step"}},
		"fractions are rounded":   {policy: within("500m", numbers("0", "3", "1"))},
		"preset below":            {policy: within("1", numbers("2", "8", "1")), fields: []string{".validRange.default"}},
		"maximum above capacity":  {policy: within("1", numbers("1", "11", "1")), fields: []string{".validRange.max"}},
		"no step":                 {policy: within("1", numbers("1", "9", "0")), fields: []string{".validRange.step"}},
		"no minimum":              {policy: within("1", &resourcev1.CapacityRequestPolicyRange{}), fields: []string{".validRange.min"}},
		"no preset":               {policy: &resourcev1.CapacityRequestPolicy{ValidRange: numbers("1", "9", "1")}, fields: []string{".default"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := valid()
			first(s).Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse("10"), RequestPolicy: tc.policy}
			var fields []string
			for _, err := range resourceslice.Resource.Validate(t.Context(), s) {
				fields = append(fields, strings.TrimPrefix(err.Field, "spec.devices[0].capacity[memory].requestPolicy"))
			}
			if !slices.Equal(fields, tc.fields) {
				t.Errorf("errors are about %q, want %q", fields, tc.fields)
			}
		})
	}
}

// TestHugeStep would divide by zero: 2^64 reads as 0.
func TestHugeStep(t *testing.T) {
	s := valid()
	first(s).Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse("100000000000000000000"), RequestPolicy: &resourcev1.CapacityRequestPolicy{
		Default: new(resource.MustParse("1")), ValidRange: numbers("1", "9", "18446744073709551616"),
	}}
	if errs := resourceslice.Resource.Validate(t.Context(), s); len(errs) == 0 {
		t.Error("the step is accepted")
	}
}

func TestOldCapacityIsKept(t *testing.T) {
	old := valid()
	first(old).AllowMultipleAllocations = nil
	s := old.DeepCopy()
	s.Spec.Pool.Generation++
	if errs := resourceslice.Resource.ValidateUpdate(t.Context(), s, old); len(errs) > 0 {
		t.Errorf("unchanged capacity is refused: %v", errs)
	}
}

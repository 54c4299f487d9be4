// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/resource/resourceclaim"
)

type claim = resourcev1.ResourceClaim

func valid() *claim {
	return &claim{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{
				{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: "gpu.example.com",
					Selectors:       []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
					Tolerations:     []resourcev1.DeviceToleration{{Key: "broken", Value: "a-bit"}},
				}},
				{Name: "nic", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "fast", DeviceClassName: "fast"}, {Name: "slow", DeviceClassName: "slow"}}},
			},
			Constraints: []resourcev1.DeviceConstraint{{Requests: []string{"gpu", "nic/fast"}, MatchAttribute: new(resourcev1.FullyQualifiedName("example.com/root"))}},
			Config: []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
				Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "gpu.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"a":1}`)}},
			}}},
		}},
	}
}

func requests(c *claim) []resourcev1.DeviceRequest { return c.Spec.Devices.Requests }

func TestResource(t *testing.T) {
	registrytest.Run(t, resourceclaim.Resource, registrytest.Case[*claim]{
		AddToScheme: resourcev1.AddToScheme,
		Valid:       valid,
		Update:      func(c *claim) { c.Labels = map[string]string{"a": "b"} },
		StatusUpdate: func(c *claim) {
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "n1/a", Device: "gpu-0"}},
			}}
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "n1/a", Device: "gpu-0"}}
		},
		Invalid: []registrytest.Invalid[*claim]{
			{Name: "request name", Mutate: func(c *claim) { requests(c)[0].Name = "A" }, Field: "spec.devices.requests[0].name"},
			{Name: "request name twice", Mutate: func(c *claim) { requests(c)[1].Name = "gpu" }, Field: "spec.devices.requests[1]"},
			{Name: "asks for nothing", Mutate: func(c *claim) { requests(c)[0].Exactly = nil }, Field: "spec.devices.requests[0]"},
			{Name: "asks in two ways", Mutate: func(c *claim) { requests(c)[0].FirstAvailable = requests(c)[1].FirstAvailable }, Field: "spec.devices.requests[0]"},
			{Name: "class", Mutate: func(c *claim) { requests(c)[0].Exactly.DeviceClassName = "" }, Field: "spec.devices.requests[0].exactly.deviceClassName"},
			{Name: "class of an alternative", Mutate: func(c *claim) { requests(c)[1].FirstAvailable[1].DeviceClassName = "A" }, Field: "spec.devices.requests[1].firstAvailable[1].deviceClassName"},
			{Name: "count", Mutate: func(c *claim) { requests(c)[0].Exactly.Count = -1 }, Field: "spec.devices.requests[0].exactly.count"},
			{Name: "count of all", Mutate: func(c *claim) {
				requests(c)[0].Exactly.AllocationMode, requests(c)[0].Exactly.Count = resourcev1.DeviceAllocationModeAll, 1
			}, Field: "spec.devices.requests[0].exactly.count"},
			{Name: "mode", Mutate: func(c *claim) { requests(c)[0].Exactly.AllocationMode = "x" }, Field: "spec.devices.requests[0].exactly.allocationMode"},
			{Name: "selector", Mutate: func(c *claim) { requests(c)[0].Exactly.Selectors[0].CEL.Expression = "device.x" }, Field: "spec.devices.requests[0].exactly.selectors[0].cel.expression"},
			{Name: "empty selector", Mutate: func(c *claim) { requests(c)[0].Exactly.Selectors[0].CEL = nil }, Field: "spec.devices.requests[0].exactly.selectors[0].cel"},
			{Name: "long selector", Mutate: func(c *claim) {
				requests(c)[0].Exactly.Selectors[0].CEL.Expression = "true" + strings.Repeat(" ", 10<<10)
			}, Field: "spec.devices.requests[0].exactly.selectors[0].cel.expression"},
			{Name: "toleration", Mutate: func(c *claim) { requests(c)[0].Exactly.Tolerations[0].Operator = "Exists" }, Field: "spec.devices.requests[0].exactly.tolerations[0].value"},
			{Name: "constraint on an unknown request", Mutate: func(c *claim) { c.Spec.Devices.Constraints[0].Requests[1] = "nic/none" }, Field: "spec.devices.constraints[0].requests[1]"},
			{Name: "constraint without a domain", Mutate: func(c *claim) { *c.Spec.Devices.Constraints[0].MatchAttribute = "root" }, Field: "spec.devices.constraints[0].matchAttribute"},
			{Name: "constraint without an attribute", Mutate: func(c *claim) { c.Spec.Devices.Constraints[0].MatchAttribute = nil }, Field: "spec.devices.constraints[0]"},
			{Name: "configuration is no object", Mutate: func(c *claim) { c.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(`[]`) }, Field: "spec.devices.config[0].opaque.parameters"},
			{Name: "no configuration", Mutate: func(c *claim) { c.Spec.Devices.Config[0].Opaque = nil }, Field: "spec.devices.config[0].opaque"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*claim]{
			{Name: "immutable", Mutate: func(c *claim) { requests(c)[0].Exactly.Count = 2 }, Field: "spec"},
		},
		Row: []any{"c", "pending"},
	})
}

func TestDefaults(t *testing.T) {
	c := valid()
	resourceclaim.Resource.Default(c)
	for name, r := range map[string]struct {
		mode  resourcev1.DeviceAllocationMode
		count int64
	}{
		"exactly":     {requests(c)[0].Exactly.AllocationMode, requests(c)[0].Exactly.Count},
		"alternative": {requests(c)[1].FirstAvailable[1].AllocationMode, requests(c)[1].FirstAvailable[1].Count},
	} {
		if r.mode != resourcev1.DeviceAllocationModeExactCount || r.count != 1 {
			t.Errorf("%s asks for %d devices in mode %q", name, r.count, r.mode)
		}
	}
	if op := requests(c)[0].Exactly.Tolerations[0].Operator; op != resourcev1.DeviceTolerationOpEqual {
		t.Errorf("operator is %q", op)
	}
}

// allocated is a claim with two devices, of each of which something is reported.
func allocated() *claim {
	c := valid()
	c.Namespace, c.ResourceVersion = "ns", "1"
	c.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"},
			{Request: "nic/fast", Driver: "nic.example.com", Pool: "b", Device: "nic-0", ShareID: new(types.UID("11111111-1111-1111-1111-111111111111"))},
		}}},
		Devices: []resourcev1.AllocatedDeviceStatus{
			{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"},
			{Driver: "nic.example.com", Pool: "b", Device: "nic-0", ShareID: new("11111111-1111-1111-1111-111111111111")},
		},
	}
	return c
}

func TestStatusIsForgottenOnDeallocation(t *testing.T) {
	old, c := allocated(), allocated()
	c.Status.Allocation = nil
	resourceclaim.Resource.Status.PrepareForUpdate(t.Context(), c, old)
	if c.Status.Devices != nil {
		t.Errorf("after deallocation %v is reported", c.Status.Devices)
	}
}

func TestInvalidStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		old    func(*claim)
		mutate func(*claim)
		field  string
	}{
		"reserved without allocation": {old: func(c *claim) { c.Status = resourcev1.ResourceClaimStatus{} }, mutate: func(c *claim) {
			c.Status = resourcev1.ResourceClaimStatus{ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}}
		}, field: "status.reservedFor"},
		"consumer": {mutate: func(c *claim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", UID: "u"}}
		}, field: "status.reservedFor[0].name"},
		"reserved while it is deleted": {mutate: func(c *claim) {
			c.DeletionTimestamp = new(metav1.Now())
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
		}, field: "status.reservedFor"},
		"changed allocation": {mutate: func(c *claim) { c.Status.Allocation.Devices.Results[0].Device = "gpu-1" }, field: "status.allocation"},
		"unallocated device": {mutate: func(c *claim) { c.Status.Devices[0].Device = "gpu-9" }, field: "status.devices[0]"},
		"data":               {mutate: func(c *claim) { c.Status.Devices[0].Data = &runtime.RawExtension{Raw: []byte(`1`)} }, field: "status.devices[0].data"},
		"address": {mutate: func(c *claim) {
			c.Status.Devices[0].NetworkData = &resourcev1.NetworkDeviceData{IPs: []string{"10.0.0.1"}}
		}, field: "status.devices[0].networkData.ips[0]"},
		"unknown request": {old: unallocate, mutate: func(c *claim) { c.Status.Allocation.Devices.Results[0].Request = "x" }, field: "status.allocation.devices.results[0].request"},
		"share":           {old: unallocate, mutate: func(c *claim) { *c.Status.Allocation.Devices.Results[1].ShareID = "x" }, field: "status.allocation.devices.results[1].shareID"},
		"one-sided binding": {old: unallocate, mutate: func(c *claim) {
			c.Status.Allocation.Devices.Results[0].BindingConditions = []string{"ready"}
		}, field: "status.allocation.devices.results[0].bindingFailureConditions"},
		"node selector": {old: unallocate, mutate: func(c *claim) { c.Status.Allocation.NodeSelector = &corev1.NodeSelector{} }, field: "status.allocation.nodeSelector.nodeSelectorTerms"},
	} {
		t.Run(name, func(t *testing.T) {
			old, c := allocated(), allocated()
			if errs := resourceclaim.Resource.Status.Validate(t.Context(), c, old); len(errs) > 0 {
				t.Fatalf("the status is invalid before: %v", errs)
			}
			if tc.old != nil {
				tc.old(old)
			}
			tc.mutate(c)
			var fields []string
			for _, err := range resourceclaim.Resource.Status.Validate(t.Context(), c, old) {
				fields = append(fields, err.Field)
			}
			if !slices.Contains(fields, tc.field) {
				t.Errorf("errors are about %q, want %s", fields, tc.field)
			}
		})
	}
}

func unallocate(c *claim) { c.Status.Allocation, c.Status.Devices = nil, nil }

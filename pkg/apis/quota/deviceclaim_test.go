// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
)

func TestDeviceClaimUsage(t *testing.T) {
	const exact, all = resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll
	c := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: exact, Count: 2}},
		{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "nic", AllocationMode: all}},
		{FirstAvailable: []resourcev1.DeviceSubRequest{
			{DeviceClassName: "gpu", AllocationMode: exact, Count: 3}, {DeviceClassName: "gpu", AllocationMode: exact, Count: 1}, {DeviceClassName: "tpu", AllocationMode: exact, Count: 1},
		}},
	}}}}
	used, err := deviceClaims.Usage(c, now)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"count/resourceclaims.resource.k8s.io": "1", "gpu.deviceclass.resource.k8s.io/devices": "5",
		"nic.deviceclass.resource.k8s.io/devices": "32", "tpu.deviceclass.resource.k8s.io/devices": "1",
	}
	if diff := cmp.Diff(want, printed(used)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	for name := range used {
		if !deviceClaims.Counts(name) {
			t.Errorf("%s is used and not counted", name)
		}
	}
}

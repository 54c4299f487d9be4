// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// deviceClaims are counted, and so are the devices that they ask for, by class. The names of extended resources that
// stand for a class are not counted here: pods count what they request of these.
var deviceClaims = Kind{
	Resource: resourcev1.Resource("resourceclaims"),
	Counts: func(name corev1.ResourceName) bool {
		return name == countName(resourcev1.Resource("resourceclaims")) || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
	},
	Usage:   deviceClaimUsage,
	Updates: true,
}

func deviceClaimUsage(obj runtime.Object, _ time.Time) (corev1.ResourceList, error) {
	c, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("expected a resource claim, got %T", obj)
	}
	perClass := map[string]int64{}
	for _, r := range c.Spec.Devices.Requests {
		if e := r.Exactly; e != nil {
			perClass[e.DeviceClassName] += mostDevices(e.AllocationMode, e.Count)
			continue
		}
		// Of alternatives one is allocated: for each class, the one that takes most of it may be.
		most := map[string]int64{}
		for _, s := range r.FirstAvailable {
			most[s.DeviceClassName] = max(most[s.DeviceClassName], mostDevices(s.AllocationMode, s.Count))
		}
		for class, n := range most {
			perClass[class] += n
		}
	}
	used := corev1.ResourceList{countName(resourcev1.Resource("resourceclaims")): count(1)}
	for class, n := range perClass {
		used[corev1.ResourceName(class+corev1.ResourceClaimsPerClass)] = count(n)
	}
	return used, nil
}

// mostDevices is how many devices a request may get. A mode that is not known counts nothing.
func mostDevices(mode resourcev1.DeviceAllocationMode, n int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return n
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Devices looks up what tells how much of extended resources a claim for devices takes (KEP-5004). What is not there is nil, and no
// error.
type Devices interface {
	Class(name string) (*resourcev1.DeviceClass, error)
	Pod(namespace, name string) (*corev1.Pod, error)
	// Claims are all those of a namespace.
	Claims(namespace string) ([]*resourcev1.ResourceClaim, error)
}

// deviceClaims are counted, and so are the devices that they ask for: by class, and by the names of extended resources that stand
// for a class, under which pods count, too.
func deviceClaims(devices Devices) Kind {
	return Kind{
		Resource: resourcev1.Resource("resourceclaims"),
		Counts:   deviceClaimCounts,
		Usage: func(obj runtime.Object, now time.Time) (corev1.ResourceList, error) {
			c, ok := obj.(*resourcev1.ResourceClaim)
			if !ok {
				return nil, fmt.Errorf("expected a resource claim, got %T", obj)
			}
			return deviceClaimUsage(c, devices, now)
		},
		Updates: true,
	}
}

func deviceClaimCounts(name corev1.ResourceName) bool {
	if name == countName(resourcev1.Resource("resourceclaims")) || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass) {
		return true
	}
	bare, isRequest := strings.CutPrefix(string(name), requestsPrefix)
	return isRequest && isExtended(corev1.ResourceName(bare))
}

func deviceClaimUsage(c *resourcev1.ResourceClaim, devices Devices, now time.Time) (corev1.ResourceList, error) {
	classes := perClass(c)
	used := corev1.ResourceList{countName(resourcev1.Resource("resourceclaims")): count(1)}
	if len(classes) == 0 {
		return used, nil
	}
	ofPod, err := podsShare(c, devices, now)
	if err != nil {
		return nil, err
	}
	extended := map[corev1.ResourceName]int64{}
	for class, n := range classes {
		used[corev1.ResourceName(class+corev1.ResourceClaimsPerClass)] = count(n)
		extended[corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass+class)] += n
		d, err := devices.Class(class)
		if err != nil {
			return nil, err
		}
		if d != nil && ptr.Deref(d.Spec.ExtendedResourceName, "") != "" {
			extended[corev1.ResourceName(requestsPrefix+*d.Spec.ExtendedResourceName)] += n
		}
	}
	for name, n := range extended {
		rest := count(n)
		if rest.Sub(ofPod[name]); rest.Sign() > 0 {
			used[name] = rest
		}
	}
	return used, nil
}

// podsShare is what the pod for whose extended resources the scheduler has made the claim counts already: only what the claim takes
// beyond it is counted as the claim's. Anybody can write a claim that says so of itself; of several for a pod one is believed.
func podsShare(c *resourcev1.ResourceClaim, devices Devices, now time.Time) (corev1.ResourceList, error) {
	owner := extendedFor(c)
	if owner == nil {
		return nil, nil
	}
	pod, err := devices.Pod(c.Namespace, owner.Name)
	if err != nil || pod == nil || pod.UID != owner.UID {
		return nil, err
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		if s.ResourceClaimName != c.Name {
			return nil, nil
		}
		return podUsage(pod, now)
	}
	// The pod does not say yet which one it is: the first.
	all, err := devices.Claims(c.Namespace)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if o := extendedFor(other); o != nil && o.UID == owner.UID && precedes(other, c) {
			return nil, nil
		}
	}
	return podUsage(pod, now)
}

// extendedFor is the pod for whose extended resources a claim says that it was made.
func extendedFor(c *resourcev1.ResourceClaim) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(c)
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return nil
	}
	return owner
}

func precedes(a, b *resourcev1.ResourceClaim) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	return a.Name < b.Name
}

// perClass is how many devices of each class a claim may get.
func perClass(c *resourcev1.ResourceClaim) map[string]int64 {
	all := map[string]int64{}
	for _, r := range c.Spec.Devices.Requests {
		if e := r.Exactly; e != nil {
			all[e.DeviceClassName] += mostDevices(e.AllocationMode, e.Count)
			continue
		}
		// Of alternatives one is allocated: for each class, the one that takes most of it may be.
		most := map[string]int64{}
		for _, s := range r.FirstAvailable {
			most[s.DeviceClassName] = max(most[s.DeviceClassName], mostDevices(s.AllocationMode, s.Count))
		}
		for class, n := range most {
			all[class] += n
		}
	}
	return all
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

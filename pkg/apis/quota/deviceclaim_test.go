// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// devices are those of a test: the classes "gpu" and "igpu" have one extended resource, all others have none.
type devices struct {
	pod    *corev1.Pod
	claims []*resourcev1.ResourceClaim
	err    error
}

func (d devices) Class(name string) (*resourcev1.DeviceClass, error) {
	if name != "gpu" && name != "igpu" {
		return nil, d.err
	}
	resource := "example.com/gpu"
	return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &resource}}, d.err
}

func (d devices) Pod(_, name string) (*corev1.Pod, error) {
	if d.pod == nil || d.pod.Name != name {
		return nil, d.err
	}
	return d.pod, d.err
}

func (d devices) Claims(string) ([]*resourcev1.ResourceClaim, error) { return d.claims, d.err }

func TestDeviceClaimUsage(t *testing.T) {
	const exact, all = resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll
	c := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: exact, Count: 2}},
		{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "nic", AllocationMode: all}},
		{FirstAvailable: []resourcev1.DeviceSubRequest{
			{DeviceClassName: "gpu", AllocationMode: exact, Count: 3}, {DeviceClassName: "gpu", AllocationMode: exact, Count: 1}, {DeviceClassName: "tpu", AllocationMode: exact, Count: 1},
		}},
	}}}}
	kind := deviceClaims(devices{})
	used, err := kind.Usage(c, now)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"count/resourceclaims.resource.k8s.io": "1", "gpu.deviceclass.resource.k8s.io/devices": "5",
		"nic.deviceclass.resource.k8s.io/devices": "32", "tpu.deviceclass.resource.k8s.io/devices": "1",
		"requests.example.com/gpu":                        "5",
		"requests.deviceclass.resource.kubernetes.io/gpu": "5", "requests.deviceclass.resource.kubernetes.io/nic": "32", "requests.deviceclass.resource.kubernetes.io/tpu": "1",
	}
	if diff := cmp.Diff(want, printed(used)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	for name := range used {
		if !kind.Counts(name) {
			t.Errorf("%s is used and not counted", name)
		}
	}
	down := errors.New("down")
	if _, err := deviceClaims(devices{err: down}).Usage(c, now); !errors.Is(err, down) {
		t.Errorf("error %v when classes cannot be looked up", err)
	}
}

// A claim for the extended resources of a pod counts what the pod does not count already.
func TestDeviceClaimUsage_OfPod(t *testing.T) {
	owner := pod(func(p *corev1.Pod) { p.Name, p.UID = "p", "1" })
	claim := func(name string, age time.Duration) *resourcev1.ResourceClaim {
		yes := true
		return &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)), Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1", Controller: &yes}},
			},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
				{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3}},
			}}},
		}
	}
	says := func(name string) *corev1.Pod {
		p := owner.DeepCopy()
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name}
		return p
	}
	ended := owner.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	mixed := claim("c", 0) // two devices of each of two classes behind one resource
	mixed.Spec.Devices.Requests[0].Exactly.Count = 2
	mixed.Spec.Devices.Requests = append(mixed.Spec.Devices.Requests, *mixed.Spec.Devices.Requests[0].DeepCopy())
	mixed.Spec.Devices.Requests[1].Exactly.DeviceClassName = "igpu"
	plain := claim("c", 0)
	plain.Annotations = nil
	for name, test := range map[string]struct {
		claim   *resourcev1.ResourceClaim
		devices devices
		want    string
	}{
		"two classes are one resource":      {mixed, devices{pod: owner}, "3"},
		"the pod has one of three":          {claim("c", 0), devices{pod: owner}, "2"},
		"the pod names it":                  {claim("c", 0), devices{pod: says("c")}, "2"},
		"the pod names another one":         {claim("c", 0), devices{pod: says("d")}, "3"},
		"there is an older one for the pod": {claim("c", 0), devices{pod: owner, claims: []*resourcev1.ResourceClaim{claim("d", time.Minute)}}, "3"},
		"it is the older one":               {claim("c", time.Minute), devices{pod: owner, claims: []*resourcev1.ResourceClaim{claim("a", 0), claim("c", time.Minute)}}, "2"},
		"of one age the names decide":       {claim("c", 0), devices{pod: owner, claims: []*resourcev1.ResourceClaim{claim("b", 0), claim("c", 0)}}, "3"},
		"the pod has ended":                 {claim("c", 0), devices{pod: ended}, "3"},
		"there is no pod":                   {claim("c", 0), devices{}, "3"},
		"it does not say so":                {plain, devices{pod: owner}, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			used, err := deviceClaims(test.devices).Usage(test.claim, now)
			if err != nil {
				t.Fatal(err)
			}
			if got := printed(used); got["requests.example.com/gpu"] != test.want {
				t.Errorf("used %v, want %s of the extended resource", got, test.want)
			}
		})
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// first is the API as it was at first, which older monitors speak: it knows devices of regular containers only.
type first struct {
	podresourcesv1alpha1.UnimplementedPodResourcesListerServer
	server *Server
}

// List implements the API.
func (f first) List(context.Context, *podresourcesv1alpha1.ListPodResourcesRequest) (*podresourcesv1alpha1.ListPodResourcesResponse, error) {
	out := &podresourcesv1alpha1.ListPodResourcesResponse{}
	for _, p := range f.server.cfg.Pods() {
		pod := &podresourcesv1alpha1.PodResources{Name: p.Name, Namespace: p.Namespace}
		for _, c := range p.Spec.Containers {
			devices := told(f.server.cfg.Devices.Allocated(p.UID, c.Name))
			pod.Containers = append(pod.Containers, &podresourcesv1alpha1.ContainerResources{Name: c.Name, Devices: named(devices)})
		}
		out.PodResources = append(out.PodResources, pod)
	}
	return out, nil
}

// named drops where devices are.
func named(devices []*podresourcesv1.ContainerDevices) []*podresourcesv1alpha1.ContainerDevices {
	var out []*podresourcesv1alpha1.ContainerDevices
	for _, d := range devices {
		out = append(out, &podresourcesv1alpha1.ContainerDevices{ResourceName: d.ResourceName, DeviceIds: d.DeviceIds})
	}
	return out
}

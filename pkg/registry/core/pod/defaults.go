// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/port"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// setDefaults adds to the defaults of pod specs those that only pods get and templates do not.
func setDefaults(p *corev1.Pod) {
	s := &p.Spec
	podspec.SetDefaults(s)
	for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			quantity.RequestLimits(&list[i].Resources)
			if s.HostNetwork {
				port.SetHostNetworkDefaults(list[i].Ports)
			}
		}
	}
	podspec.SetPodLevelDefaults(p)
	if s.EnableServiceLinks == nil {
		on := corev1.DefaultEnableServiceLinks
		s.EnableServiceLinks = &on
	}
	// Either form of the address may be written; both are read.
	if len(p.Status.PodIPs) == 0 && p.Status.PodIP != "" {
		p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	} else if len(p.Status.PodIPs) > 0 && p.Status.PodIP == "" {
		p.Status.PodIP = p.Status.PodIPs[0].IP
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for i := range list {
			quantity.SetDefaults(list[i].AllocatedResources)
			if list[i].Resources != nil {
				quantity.SetRequirementsDefaults(list[i].Resources)
			}
		}
	}
}

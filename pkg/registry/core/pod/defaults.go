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
	if g := s.TerminationGracePeriodSeconds; *g < 0 {
		*g = 1
	}
	for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			quantity.RequestLimits(&list[i].Resources)
			if s.HostNetwork {
				port.SetHostNetworkDefaults(list[i].Ports)
			}
		}
	}
	if s.EnableServiceLinks == nil {
		on := corev1.DefaultEnableServiceLinks
		s.EnableServiceLinks = &on
	}
	setStatusDefaults(&p.Status)
}

func setStatusDefaults(s *corev1.PodStatus) {
	// Either form of the address may be written; if they differ, the old one counts.
	switch hasIP, hasIPs := s.PodIP != "", len(s.PodIPs) > 0; {
	case hasIP && (!hasIPs || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	case hasIPs:
		s.PodIP = s.PodIPs[0].IP
	}
	quantity.SetDefaults(s.AllocatedResources)
	if s.Resources != nil {
		quantity.SetRequirementsDefaults(s.Resources)
	}
	for _, list := range statuses(s) {
		for i := range list {
			quantity.SetDefaults(list[i].AllocatedResources)
			if list[i].Resources != nil {
				quantity.SetRequirementsDefaults(list[i].Resources)
			}
		}
	}
}

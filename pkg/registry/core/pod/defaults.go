// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	corev1 "k8s.io/api/core/v1"

	corepod "minik8s.io/minik8s/pkg/apis/core/pod"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// setDefaults fills in a pod and the addresses of its status.
func setDefaults(p *corev1.Pod) {
	corepod.SetDefaults(p)
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

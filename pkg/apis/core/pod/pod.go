// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pod has the defaults and validation of pods that their specs alone do not have, for the API server and for pods that
// come from elsewhere. Touch it when pods differ from templates in something new.
package pod

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/port"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// SetDefaults adds to the defaults of pod specs those that only pods get and templates do not.
func SetDefaults(p *corev1.Pod) {
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
}

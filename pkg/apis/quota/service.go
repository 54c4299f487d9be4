// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// services may change their type, so an update can use up more.
var services = Kind{
	Resource: corev1.Resource("services"),
	Counts: func(name corev1.ResourceName) bool {
		return slices.Contains([]corev1.ResourceName{
			corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers, countName(corev1.Resource("services")),
		}, name)
	},
	Usage:   serviceUsage,
	Updates: true,
}

func serviceUsage(obj runtime.Object, _ time.Time) (corev1.ResourceList, error) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("expected a service, got %T", obj)
	}
	var nodePorts, balancers int64
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		nodePorts = int64(len(svc.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		nodePorts = int64(len(svc.Spec.Ports))
		if allocate := svc.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
			nodePorts = 0
			for _, port := range svc.Spec.Ports {
				if port.NodePort != 0 {
					nodePorts++
				}
			}
		}
	}
	return corev1.ResourceList{
		countName(corev1.Resource("services")): count(1),
		corev1.ResourceServices:                count(1),
		corev1.ResourceServicesNodePorts:       count(nodePorts),
		corev1.ResourceServicesLoadBalancers:   count(balancers),
	}, nil
}

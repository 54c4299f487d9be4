// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Args returns a plugin's arguments with defaults filled in; those of no
// arguments, nil, are all defaults.
func Args[T any, P interface {
	*T
	runtime.Object
}](args runtime.Object) (P, error) {
	out := P(new(T))
	if args != nil {
		typed, ok := args.(P)
		if !ok {
			return nil, fmt.Errorf("want args to be of type %T, got %T", out, args)
		}
		out = typed.DeepCopyObject().(P)
	}
	defaultArgs(out)
	return out, nil
}

// knownArgs are the arguments of our plugins by the plugin's name.
func knownArgs() map[string]runtime.Object {
	return map[string]runtime.Object{
		"DefaultPreemption":               &configv1.DefaultPreemptionArgs{},
		"DynamicResources":                &configv1.DynamicResourcesArgs{},
		"InterPodAffinity":                &configv1.InterPodAffinityArgs{},
		"NodeAffinity":                    &configv1.NodeAffinityArgs{},
		"NodeResourcesBalancedAllocation": &configv1.NodeResourcesBalancedAllocationArgs{},
		"NodeResourcesFit":                &configv1.NodeResourcesFitArgs{},
		"PodTopologySpread":               &configv1.PodTopologySpreadArgs{},
		"VolumeBinding":                   &configv1.VolumeBindingArgs{},
	}
}

// defaultArgs fills in upstream's defaults.
func defaultArgs(args runtime.Object) {
	switch a := args.(type) {
	case *configv1.DefaultPreemptionArgs:
		a.MinCandidateNodesPercentage = or(a.MinCandidateNodesPercentage, 10)
		a.MinCandidateNodesAbsolute = or(a.MinCandidateNodesAbsolute, 100)
	case *configv1.DynamicResourcesArgs:
		a.FilterTimeout = or(a.FilterTimeout, metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault})
		a.BindingTimeout = or(a.BindingTimeout, metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault})
	case *configv1.InterPodAffinityArgs:
		a.HardPodAffinityWeight = or(a.HardPodAffinityWeight, 1)
	case *configv1.NodeResourcesBalancedAllocationArgs:
		a.Resources = defaultResources(a.Resources)
	case *configv1.NodeResourcesFitArgs:
		if a.ScoringStrategy == nil {
			a.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
		}
		a.ScoringStrategy.Resources = defaultResources(a.ScoringStrategy.Resources)
	case *configv1.PodTopologySpreadArgs:
		if a.DefaultingType == "" {
			a.DefaultingType = configv1.SystemDefaulting
		}
	case *configv1.VolumeBindingArgs:
		a.BindTimeoutSeconds = or(a.BindTimeoutSeconds, 600)
		if len(a.Shape) == 0 {
			a.Shape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
		}
	}
}

func or[T any](value *T, otherwise T) *T {
	if value != nil {
		return value
	}
	return new(otherwise)
}

// defaultResources are CPU and memory; a weight that is not given is one.
func defaultResources(list []configv1.ResourceSpec) []configv1.ResourceSpec {
	if len(list) == 0 {
		list = []configv1.ResourceSpec{{Name: string(corev1.ResourceCPU)}, {Name: string(corev1.ResourceMemory)}}
	}
	for i := range list {
		if list[i].Weight == 0 {
			list[i].Weight = 1
		}
	}
	return list
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/component-base/featuregate"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// PodLevelResources has pods as a whole request and be limited (KEP-2837). Off, such pods are refused.
const PodLevelResources featuregate.Feature = "PodLevelResources"

// PodsAPI has programs on the node told of its pods by a socket (KEP-4188).
const PodsAPI featuregate.Feature = "PodsAPI"

// MemoryQoS has the kernel keep memory for pods and slow down those that take much, as other settings say (KEP-2570).
const MemoryQoS featuregate.Feature = "MemoryQoS"

const (
	cpuAlphaOptions featuregate.Feature = "CPUManagerPolicyAlphaOptions"
	cpuBetaOptions  featuregate.Feature = "CPUManagerPolicyBetaOptions"
	customPeriod    featuregate.Feature = "CustomCPUCFSQuotaPeriod"
	podLevelResize  featuregate.Feature = "InPlacePodLevelResourcesVerticalScaling"
)

// gates are those that this kubelet acts by; it keeps the side of all others that it has. Those of a list mean nothing without the gate:
// they may be off with it.
var gates = map[featuregate.Feature][]featuregate.Feature{
	cpuAlphaOptions: nil, cpuBetaOptions: nil, customPeriod: nil, MemoryQoS: nil, PodsAPI: nil,
	PodLevelResources: {podLevelResize, "PodLevelResourcesFixDefaulting", "PodLevelResourcesFixKubeletQOSClass"},
}

// Enabled tells whether a gate that this kubelet acts by is on. AllAlpha and AllBeta say nothing more than the defaults, or are refused.
func Enabled(c *kubeletconfigv1beta1.KubeletConfiguration, gate featuregate.Feature) bool {
	if on, set := c.FeatureGates[string(gate)]; set {
		return on
	}
	for _, f := range feature.Upstream {
		if slices.Contains(f.Names, string(gate)) {
			return f.Spec.Default
		}
	}
	return false
}

// Declared are the features that a kubelet with these settings has and not all kubelets have, by their gates, in order (KEP-5328).
func Declared(c *kubeletconfigv1beta1.KubeletConfiguration) []string {
	declared := []string{"ExtendWebSocketsToKubelet", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}
	if Enabled(c, PodLevelResources) {
		declared = append(declared, string(podLevelResize))
	}
	slices.Sort(declared)
	return declared
}

// featureGates says what is wrong with the gates of a file. Those that switch only the published libraries may have either value.
func featureGates(c *config) string {
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if !feature.Known(featuregate.Feature(name)) {
			return "unrecognized feature gate: " + name
		}
	}
	free := map[string]bool{}
	for gate, others := range gates {
		free[string(gate)] = true
		for _, other := range others {
			free[string(other)] = !Enabled(c, gate)
		}
	}
	free["RotateKubeletServerCertificate"] = c.TLSCertFile != "" && !c.ServerTLSBootstrap // it is about one that the kubelet has asked for itself
	for _, f := range feature.Upstream {
		for _, name := range f.Names {
			if on, set := asked(c, name, f.Spec); set && on != f.Spec.Default && !free[name] {
				return fmt.Sprintf("feature gate %s=%t is not supported: what it switches has only this side here", name, on)
			}
		}
	}
	return ""
}

// asked is what a file says of a gate, by its name or with all others.
func asked(c *config, name string, spec featuregate.FeatureSpec) (on, set bool) {
	if on, set = c.FeatureGates[name]; set {
		return on, set
	}
	switch spec.PreRelease {
	case featuregate.Alpha:
		on, set = c.FeatureGates["AllAlpha"]
	case featuregate.Beta:
		on, set = c.FeatureGates["AllBeta"]
	}
	return on, set
}

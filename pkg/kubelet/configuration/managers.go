// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/internal/cpumanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/memorymanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/topologymanager"
)

// managers are the settings of those who give CPUs, memory and devices to containers alone.
var managers = []setting{
	{name: "cpuManagerPolicy", preset: func(c *config) { c.CPUManagerPolicy = cpumanager.None }, check: cpuPolicy},
	{name: "cpuManagerPolicyOptions", check: cpuOptions},
	{name: "cpuManagerReconcilePeriod", complete: func(c *config) {
		if c.CPUManagerReconcilePeriod.Duration == 0 { // which kubeadm writes for the default
			c.CPUManagerReconcilePeriod.Duration = 10 * time.Second
		}
	}, check: func(c *config) string {
		if c.CPUManagerReconcilePeriod.Duration < time.Second {
			return "must be at least a second"
		}
		return ""
	}},
	{name: "memoryManagerPolicy", preset: func(c *config) { c.MemoryManagerPolicy = memorymanager.None }, check: func(c *config) string {
		return among(c.MemoryManagerPolicy, memorymanager.None, memorymanager.Static)
	}},
	{name: "reservedMemory", check: reservedMemory},
	{name: "topologyManagerPolicy", preset: func(c *config) { c.TopologyManagerPolicy = topologymanager.None }, check: func(c *config) string {
		return among(c.TopologyManagerPolicy, topologymanager.None, topologymanager.BestEffort, topologymanager.Restricted, topologymanager.SingleNUMANode)
	}},
	{name: "topologyManagerScope", preset: func(c *config) { c.TopologyManagerScope = topologymanager.Container }, check: func(c *config) string {
		return among(c.TopologyManagerScope, topologymanager.Container, topologymanager.Pod)
	}},
	{name: "topologyManagerPolicyOptions", check: func(c *config) string {
		_, err := topologymanager.ParseOptions(c.TopologyManagerPolicyOptions)
		return said(err)
	}},
	{name: "enforceNodeAllocatable", complete: enforcement, check: enforceable},
	{name: "reservedSystemCPUs", check: func(c *config) string {
		_, err := cpuset.Parse(c.ReservedSystemCPUs)
		return said(err)
	}},
}

// EnforcePods is the value of enforceNodeAllocatable that limits all pods together, and enforceNone the one that limits nothing.
const EnforcePods, enforceNone = "pods", "none"

// enforcement is as upstream's once something is reserved. Else the node is to leave the machine to whoever uses it besides.
func enforcement(c *config) {
	if c.EnforceNodeAllocatable != nil {
		return
	}
	c.EnforceNodeAllocatable = []string{enforceNone}
	if len(c.SystemReserved) > 0 || len(c.KubeReserved) > 0 || c.ReservedSystemCPUs != "" {
		c.EnforceNodeAllocatable = []string{EnforcePods}
	}
}

// enforceable are only all pods together: what else runs on the machine is not the kubelet's to limit.
func enforceable(c *config) string {
	for _, value := range c.EnforceNodeAllocatable {
		if value != EnforcePods && value != enforceNone || len(c.EnforceNodeAllocatable) > 1 {
			return fmt.Sprintf("must be [%s] or [%s]", EnforcePods, enforceNone)
		}
	}
	return ""
}

func said(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func among(value string, all ...string) string {
	if !slices.Contains(all, value) {
		return fmt.Sprintf("must be one of: %q", all)
	}
	return ""
}

func cpuPolicy(c *config) string {
	if problem := among(c.CPUManagerPolicy, cpumanager.None, cpumanager.Static); problem != "" || c.CPUManagerPolicy == cpumanager.None {
		return problem
	}
	if c.ReservedSystemCPUs != "" || positive(c.SystemReserved["cpu"]) || positive(c.KubeReserved["cpu"]) {
		return ""
	}
	return "the static policy requires systemReserved.cpu + kubeReserved.cpu to be greater than zero, or reservedSystemCPUs"
}

// cpuOptions need a gate until they are stable.
func cpuOptions(c *config) string {
	if _, err := cpumanager.ParseOptions(c.CPUManagerPolicyOptions); err != nil {
		return err.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(c.CPUManagerPolicyOptions)) {
		if slices.Contains(cpumanager.AlphaOptions, name) && !Enabled(c, cpuAlphaOptions) {
			return fmt.Sprintf("CPU Manager Policy Alpha-level Options not enabled, but option %q provided: it needs the feature gate %s", name, cpuAlphaOptions)
		}
		if slices.Contains(cpumanager.BetaOptions, name) && !Enabled(c, cpuBetaOptions) {
			return fmt.Sprintf("CPU Manager Policy Beta-level Options not enabled, but option %q provided: it needs the feature gate %s", name, cpuBetaOptions)
		}
	}
	return ""
}

// reservedMemory names each kind of memory of a node once.
func reservedMemory(c *config) string {
	seen := map[string]bool{}
	for _, r := range c.ReservedMemory {
		for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
			key, q := fmt.Sprintf("NUMA node %d and resource %q", r.NumaNode, name), r.Limits[name]
			switch {
			case name != corev1.ResourceMemory && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
				return fmt.Sprintf("the limit type %q for NUMA node %d is not supported, only %v is accepted", name, r.NumaNode,
					[]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceHugePagesPrefix + "<HugePageSize>"})
			case q.Sign() <= 0:
				return "reserved memory may not be zero for " + key
			case seen[key]:
				return "the reserved memory has a duplicate value for " + key
			}
			seen[key] = true
		}
	}
	return ""
}

func positive(text string) bool {
	q, err := resource.ParseQuantity(text)
	return err == nil && q.Sign() > 0
}

// Reserved are the resources that are not for pods: of the system, and of Kubernetes' own parts. reservedSystemCPUs stands for the
// CPUs of both, as with upstream's kubelet.
func Reserved(c *kubeletconfigv1beta1.KubeletConfiguration) (system, kube map[string]string) {
	cpus, err := cpuset.Parse(c.ReservedSystemCPUs)
	if err != nil || cpus.IsEmpty() {
		return c.SystemReserved, c.KubeReserved
	}
	system, kube = maps.Clone(c.SystemReserved), maps.Clone(c.KubeReserved)
	if system == nil {
		system = map[string]string{}
	}
	system["cpu"] = fmt.Sprint(cpus.Size())
	delete(kube, "cpu")
	return system, kube
}

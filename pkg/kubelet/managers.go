// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/cpumanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/memorymanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
	"minik8s.io/minik8s/pkg/kubelet/internal/topologymanager"
)

// readMachine is only done if somebody wants to know.
func (k *Kubelet) readMachine() (*topology.Machine, error) {
	c := k.cfg.Configuration
	if c.CPUManagerPolicy == cpumanager.None && c.MemoryManagerPolicy == memorymanager.None && c.TopologyManagerPolicy == topologymanager.None {
		return &topology.Machine{}, nil
	}
	m, err := topology.Read(k.resources.Host.Root)
	if err != nil {
		return nil, fmt.Errorf("reading the machine's topology: %w", err)
	}
	return m, nil
}

// newManagers makes what gives CPUs, memory and devices to containers alone.
func (k *Kubelet) newManagers() error {
	c := k.cfg.Configuration
	reservedCPUs, err := cpuset.Parse(c.ReservedSystemCPUs)
	if err != nil {
		return fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	cpuOptions, err := cpumanager.ParseOptions(c.CPUManagerPolicyOptions)
	if err != nil {
		return err
	}
	counts := k.metrics.Managers(func() (int, map[int]int) { return k.cpus.Usage() })
	if k.cpus, err = cpumanager.New(cpumanager.Config{
		Policy: c.CPUManagerPolicy, Options: cpuOptions, Reserved: k.reservedOf(corev1.ResourceCPU), ReservedCPUs: reservedCPUs, Machine: k.machine,
		SingleNode: c.TopologyManagerPolicy == topologymanager.SingleNUMANode, RootDir: k.cfg.RootDir, Changed: k.wakeAll, Counts: counts,
	}); err != nil {
		return err
	}
	if k.memory, err = k.newMemory(counts.Memory); err != nil {
		return err
	}
	options, err := topologymanager.ParseOptions(c.TopologyManagerPolicyOptions)
	if err != nil {
		return err
	}
	k.topology, err = topologymanager.New(topologymanager.Config{
		Policy: c.TopologyManagerPolicy, Scope: c.TopologyManagerScope, Options: options, Machine: k.machine,
		Providers: []topologymanager.Provider{devicemanager.Provider{Manager: k.devices}, k.cpus, k.memory}, Known: k.knows, Made: k.made,
		Clock: k.cfg.Clock, Counts: counts,
	})
	return err
}

func (k *Kubelet) newMemory(count func(error)) (*memorymanager.Manager, error) {
	c := k.cfg.Configuration
	cfg := memorymanager.Config{Policy: c.MemoryManagerPolicy, Machine: k.machine, RootDir: k.cfg.RootDir, Count: count}
	if c.MemoryManagerPolicy != memorymanager.None {
		capacity, err := k.resources.Host.Capacity(k.resources.Dir, k.resources.MaxPods)
		if err != nil {
			return nil, err
		}
		for _, list := range k.resources.Reserved(capacity) {
			cfg.Reserved.Add(list[corev1.ResourceMemory])
		}
	}
	for _, r := range c.ReservedMemory {
		cfg.ReservedOf = append(cfg.ReservedOf, memorymanager.Reservation{Node: int(r.NumaNode), Limits: r.Limits})
	}
	return memorymanager.New(cfg)
}

// reservedOf is how much of a resource is not for pods.
func (k *Kubelet) reservedOf(name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	for _, list := range k.reserved {
		sum.Add(list[name])
	}
	return sum
}

// knows says whether the node has taken a pod and not yet forgotten it, made whether the engine has anything of it.
func (k *Kubelet) knows(uid types.UID) bool {
	r := k.running.Load()
	if r == nil {
		return false
	}
	_, known := r.workers.Stage(uid)
	return known
}

func (k *Kubelet) made(uid types.UID) bool { return k.pleg.Pods()[uid] != nil }

// wakeAll has all pods looked at.
func (k *Kubelet) wakeAll() {
	for _, pod := range k.taken() {
		k.wake(pod.UID)
	}
}

// placed adds to what is asked of the engine where a container runs. One with CPUs of its own has no other limit of them: a quota
// would take some of their time away.
func (k *Kubelet) placed(resources func(*corev1.Pod, *corev1.Container) container.Resources) func(*corev1.Pod, *corev1.Container) container.Resources {
	return func(pod *corev1.Pod, c *corev1.Container) container.Resources {
		r := resources(pod, c)
		r.CPUs = k.cpus.CPUs(pod.UID, c.Name).String()
		r.NUMANodes = k.memory.NUMANodes(pod.UID, c.Name)
		if !k.cpus.Own(pod.UID, c.Name).IsEmpty() || cgroup.AllOf(r, k.cfg.Size.CPU.MilliValue()) {
			r.CPUQuota, r.CPUPeriod = 0, 0
		}
		return r
	}
}

// resizeRules are what the node does not do for pods that run. Of swap only version 2 of cgroups knows.
func (k *Kubelet) resizeRules(engine container.Version) allocation.Rules {
	rules := allocation.Rules{Exclusive: k.exclusive()}
	if k.cfg.Configuration.MemorySwap.SwapBehavior == limitedSwap && engine.CgroupVersion == "2" {
		rules.Swaps = cgroup.MaySwap
	}
	return rules
}

// exclusive are the resources that containers have alone.
func (k *Kubelet) exclusive() allocation.Exclusive {
	out := allocation.Exclusive{}
	if p := k.cfg.Configuration.CPUManagerPolicy; p != cpumanager.None {
		out[corev1.ResourceCPU] = p
	}
	if p := k.cfg.Configuration.MemoryManagerPolicy; p != memorymanager.None {
		out[corev1.ResourceMemory] = p
	}
	return out
}

// resync is how often a pod is looked at without a cause.
func (k *Kubelet) resync() time.Duration {
	c := k.cfg.Configuration
	every := cmp.Or(c.SyncFrequency.Duration, time.Minute)
	if c.CPUManagerPolicy == cpumanager.Static {
		return min(every, c.CPUManagerReconcilePeriod.Duration)
	}
	return every
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
)

// enforceAgain is after how long it is tried again to limit all pods together: they may have more than they are to have, and
// eviction takes time.
const enforceAgain = time.Minute

// enforce limits all pods together to what the node has but for what is reserved, or takes the limits of an earlier process away.
func (k *Kubelet) enforce(ctx context.Context, groups cgroups) {
	on := enforces(k.cfg.Configuration, k.resources.Host)
	for {
		var limits container.Resources
		var err error
		if on {
			limits, err = k.podLimits()
		}
		if err == nil {
			err = groups.LimitPods(limits)
		}
		ref := node.Ref(k.cfg.NodeName)
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "Limiting all pods together failed")
			k.recorder.Event(ref, corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", fmt.Sprintf("Failed to update Node Allocatable Limits %q: %v", k.cfg.CgroupRoot, err))
		case on:
			k.recorder.Event(ref, corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
		}
		if err == nil || !k.sleep(ctx, enforceAgain) {
			return
		}
	}
}

// enforces says whether all pods together are limited.
func enforces(c *kubeletconfigv1beta1.KubeletConfiguration, host node.Host) bool {
	return slices.Contains(c.EnforceNodeAllocatable, configuration.EnforcePods) || host.Sized()
}

func (k *Kubelet) podLimits() (container.Resources, error) {
	capacity, err := k.resources.Host.Capacity(k.resources.Dir, k.resources.MaxPods)
	if err != nil {
		return container.Resources{}, err
	}
	pids, err := maxProcesses(k.resources.Host.Root)
	if err != nil {
		return container.Resources{}, err
	}
	capacity[pid] = *resource.NewQuantity(pids, resource.DecimalSI)
	limits := limitsOf(capacity, k.reserved)
	if !k.resources.Host.CPU.IsZero() {
		limits.CPUPeriod = cpuPeriod
		limits.CPUQuota = max(1000, (limits.CPUShares*cpuPeriod+1023)/1024) // the kernel's least
	}
	return limits, nil
}

// cpuPeriod is over how long, in microseconds, the time of a node's CPUs is counted, where it has not all of the machine's.
const cpuPeriod = 100_000

// pid is the resource that stands for processes and threads.
const pid corev1.ResourceName = "pid"

// limitsOf are what all pods together may use of a capacity. CPU is shared by weight: what nobody else needs is theirs.
func limitsOf(capacity corev1.ResourceList, reserved []corev1.ResourceList) container.Resources {
	left := func(name corev1.ResourceName, value func(*resource.Quantity) int64) int64 {
		q := capacity[name]
		for _, list := range reserved {
			q.Sub(list[name])
		}
		return max(value(&q), 1) // 0 would be no limit
	}
	return container.Resources{
		CPUShares:   max(2, left(corev1.ResourceCPU, (*resource.Quantity).MilliValue)*1024/1000),
		MemoryBytes: left(corev1.ResourceMemory, (*resource.Quantity).Value),
		PidsLimit:   left(pid, (*resource.Quantity).Value),
	}
}

// maxProcesses is how many processes and threads the kernel allows.
func maxProcesses(root string) (int64, error) {
	least := int64(0)
	for _, name := range []string{"pid_max", "threads-max"} {
		data, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel", name))
		if err != nil {
			return 0, fmt.Errorf("reading how many processes there can be: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading how many processes there can be: %w", err)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least, nil
}

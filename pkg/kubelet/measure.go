// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/cadvisor"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
)

// measure has the figures looked up that nobody counts when they change.
func (k *Kubelet) measure() {
	k.metrics.Pods((*host)(k).Pods, k.pleg.Pods)
	if k.cfg.Certificate != nil {
		k.metrics.Certificate(k.cfg.Certificate)
	}
}

// phase is that of a pod as last told.
func (k *Kubelet) phase(pod *corev1.Pod) corev1.PodPhase { return k.status.Base(pod).Phase }

// usage is nil until the engine has told of its cgroups.
func (k *Kubelet) usage() stats.Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parts == nil {
		return nil
	}
	return k.parts.usage
}

// groups is nil likewise.
func (k *Kubelet) groups() cadvisor.Groups {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parts == nil {
		return nil
	}
	return k.parts.groups
}

// machineInfo describes this machine for its metrics.
func (k *Kubelet) machineInfo() (cadvisor.Machine, error) {
	k.mu.Lock()
	engine := k.engine
	k.mu.Unlock()
	var mem unix.Sysinfo_t
	if err := unix.Sysinfo(&mem); err != nil {
		return cadvisor.Machine{}, fmt.Errorf("reading memory size: %w", err)
	}
	info := k.host.Info(engine, k.cfg.Version)
	unit := uint64(mem.Unit)
	return cadvisor.Machine{
		MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID,
		KernelVersion: info.KernelVersion, OSVersion: info.OSImage, EngineVersion: engine.Version,
		Cores: runtime.NumCPU(), Memory: uint64(mem.Totalram) * unit, Swap: uint64(mem.Totalswap) * unit,
	}, nil
}

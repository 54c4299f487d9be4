// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/cadvisor"
	"minik8s.io/minik8s/pkg/kubelet/internal/server"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
)

// logDir holds the logs of the node.
const logDir = "/var/log"

// measure makes what reads figures, and has those looked up that nobody counts when they change.
func (k *Kubelet) measure() {
	k.disks = stats.NewVolumes(stats.VolumesConfig{
		Clock: k.cfg.Clock, Period: k.cfg.Configuration.VolumeStatsAggPeriod.Duration, Pods: k.taken, Places: k.places,
	})
	k.stats = stats.New(stats.Config{
		NodeName: k.cfg.NodeName, RootDir: k.cfg.RootDir, Clock: k.cfg.Clock,
		Pods: k.taken, Observed: k.pleg.Pods, Usage: k.usage, Volumes: k.disks.Of,
	})
	k.metrics.Volumes(k.disks.All)
	k.metrics.Pods(k.taken, k.pleg.Pods)
	if k.cfg.Certificate != nil {
		k.metrics.Certificate(k.cfg.Certificate)
	}
}

// cgroupMetrics are those of cAdvisor.
func (k *Kubelet) cgroupMetrics() (prometheus.Gatherer, error) {
	r := prometheus.NewRegistry()
	return r, r.Register(cadvisor.New(cadvisor.Config{
		Groups: k.groups, Observed: k.pleg.Pods, Machine: k.machineInfo, Version: k.cfg.Version,
	}))
}

// newServer makes the HTTP API.
func (k *Kubelet) newServer() (*server.Server, error) {
	usage, err := k.cgroupMetrics()
	if err != nil {
		return nil, err
	}
	settings := k.cfg.Configuration
	logs := logDir
	if !ptr.Deref(settings.EnableSystemLogHandler, true) {
		logs = ""
	}
	return server.New(server.Config{
		Addr: k.cfg.ListenAddr, NodeName: k.cfg.NodeName, Certificate: k.cfg.Certificate, ClientCAs: k.cfg.ClientCAs,
		Client: k.cfg.Client, Host: k.host(), Clock: k.cfg.Clock, LogDir: logs,
		Metrics: k.metrics.Gatherer(), Cadvisor: usage, ProbeMetrics: k.probes.Gatherer(), Instrument: k.metrics.Requests,
		NoDebugging: !ptr.Deref(settings.EnableDebuggingHandlers, true), NoProfiling: !ptr.Deref(settings.EnableProfilingHandler, true),
	})
}

// host is the kubelet as its HTTP API sees it.
func (k *Kubelet) host() *host {
	return &host{
		pods: k.taken, translate: k.mirrors.Translate, pleg: k.pleg, runtime: k.cfg.Runtime, stats: k.stats,
		healthy: k.notReady, configuration: k.cfg.Configuration,
	}
}

// phase is that of a pod as last told.
func (k *Kubelet) phase(pod *corev1.Pod) corev1.PodPhase { return k.status.Base(pod).Phase }

// machineInfo describes this machine for its metrics.
func (k *Kubelet) machineInfo() (cadvisor.Machine, error) {
	var mem unix.Sysinfo_t
	if err := unix.Sysinfo(&mem); err != nil {
		return cadvisor.Machine{}, fmt.Errorf("reading memory size: %w", err)
	}
	info, unit := k.describer.Info(), uint64(mem.Unit)
	return cadvisor.Machine{
		MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID,
		KernelVersion: info.KernelVersion, OSVersion: info.OSImage, EngineVersion: k.describer.Engine().Version,
		Cores: runtime.NumCPU(), Memory: mem.Totalram * unit, Swap: mem.Totalswap * unit,
	}, nil
}

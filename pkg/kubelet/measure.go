// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cliflag "k8s.io/component-base/cli/flag"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
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
	k.layers = stats.NewLayers(stats.LayersConfig{Clock: k.cfg.Clock, Engine: k.cfg.Runtime, Running: k.runningContainers})
	k.stats = stats.New(stats.Config{
		NodeName: k.cfg.NodeName, RootDir: k.cfg.RootDir, NetNS: k.cfg.NetNS, Clock: k.cfg.Clock,
		Pods: k.taken, Observed: k.pleg.Pods, Usage: k.usage, Volumes: k.disks.Of,
		Layer: k.layers.Of, ImageFs: k.layers.ImageFs,
	})
	k.metrics.Volumes(k.disks.All)
	k.metrics.Pods(k.taken, k.working, k.pleg.Pods)
	if k.cfg.Certificate != nil {
		k.metrics.Certificate(k.cfg.Certificate)
	}
	if k.cfg.ClientCertificate != nil {
		k.metrics.ClientCertificate(k.cfg.ClientCertificate)
	}
}

// runningContainers are the ids of those.
func (k *Kubelet) runningContainers() []string {
	var ids []string
	for _, pod := range k.pleg.Pods() {
		for _, c := range pod.Alive() {
			if c.State == container.StateRunning {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}

// cgroupMetrics are those of cAdvisor.
func (k *Kubelet) cgroupMetrics() (prometheus.Gatherer, error) {
	r := prometheus.NewRegistry()
	return r, r.Register(cadvisor.New(cadvisor.Config{
		Groups: k.groups, Observed: k.pleg.Pods, Machine: k.machineInfo, Version: k.cfg.Version,
		Written: k.written, FileSystems: k.fileSystems,
	}))
}

// written is what a container has written, nil while it is not known.
func (k *Kubelet) written(id string) *cadvisor.FileSystem {
	fs := k.layers.Written(id)
	if fs == nil {
		return nil
	}
	return new(fileSystem(k.layers.Dir(), fs))
}

// fileSystems are those that pods write to: the kubelet's, and the engine's once it is known.
func (k *Kubelet) fileSystems() []cadvisor.FileSystem {
	var out []cadvisor.FileSystem
	for _, dir := range []string{k.cfg.RootDir, k.layers.Dir()} {
		if fs, err := stats.FileSystem(dir, k.cfg.Clock.Now()); err == nil {
			out = append(out, fileSystem(dir, &fs))
		}
	}
	return out
}

func fileSystem(dir string, fs *statsv1alpha1.FsStats) cadvisor.FileSystem {
	return cadvisor.FileSystem{
		Dir: dir, Used: ptr.Deref(fs.UsedBytes, 0), Limit: ptr.Deref(fs.CapacityBytes, 0), Inodes: ptr.Deref(fs.Inodes, 0), InodesFree: ptr.Deref(fs.InodesFree, 0),
	}
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
	oldest, oerr := cliflag.TLSVersion(settings.TLSMinVersion)
	suites, serr := cliflag.TLSCipherSuites(settings.TLSCipherSuites)
	curves, cerr := cliflag.TLSCurvePreferences(settings.TLSCurvePreferences)
	if err := errors.Join(oerr, serr, cerr); err != nil {
		return nil, err
	}
	return server.New(server.Config{
		Addr: k.cfg.ListenAddr, Healthz: address(settings.HealthzBindAddress, ptr.Deref(settings.HealthzPort, 0)), ReadOnly: address("", settings.ReadOnlyPort),
		NetNS: k.cfg.NetNS, NodeName: k.cfg.NodeName, Certificate: k.cfg.Certificate, ClientCAs: k.cfg.ClientCAs,
		MinVersion: oldest, CipherSuites: suites, Curves: curves,
		Client: k.cfg.Client, Host: k.host(), Clock: k.cfg.Clock, LogDir: logs,
		Flags: k.flags(), Metrics: k.metrics.Gatherer(), Cadvisor: usage, ProbeMetrics: k.probes.Gatherer(), Instrument: k.metrics.Requests,
		TTLs: server.TTLs{
			Token:   settings.Authentication.Webhook.CacheTTL.Duration,
			Allowed: settings.Authorization.Webhook.CacheAuthorizedTTL.Duration, Denied: settings.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
		},
		StreamIdleTimeout: settings.StreamingConnectionIdleTimeout.Duration,
		NoDebugging:       !ptr.Deref(settings.EnableDebuggingHandlers, true), NoProfiling: !ptr.Deref(settings.EnableProfilingHandler, true),
	})
}

// flags are those of upstream's kubelet that say what this one has from whoever starts it and not from its settings.
func (k *Kubelet) flags() map[string]string {
	all := map[string]string{
		"hostname-override": k.cfg.NodeName, "root-dir": k.cfg.RootDir, "node-ip": strings.Join(k.hostIPs, ","), "node-labels": labels.Set(k.cfg.Labels).String(),
		"image-credential-provider-bin-dir": k.cfg.CredentialProviderDir,
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// address is where a port is listened on, "" if it is 0.
func address(host string, port int32) string {
	if port == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
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

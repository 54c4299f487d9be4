// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/credentialprovider"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/image"
	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
	"minik8s.io/minik8s/pkg/kubelet/internal/metrics"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/restart"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
	imagevolume "minik8s.io/minik8s/pkg/kubelet/internal/volume/image"
	"minik8s.io/minik8s/pkg/network/hostport"
)

// site is where parts are made: the settings and what a kubelet has before its engine has answered.
type site struct {
	cfg       *Config
	recorder  record.EventRecorder
	resources node.Resources
	// self is this node as last seen, nil if it was not seen yet.
	self func() *corev1.Node
	// inUse is called when the volumes in use have changed.
	inUse func()
	// exclusive says whether a container of the pod has CPUs of its own.
	exclusive func(types.UID) bool
	metrics   *metrics.Metrics
}

// assemble makes the parts of a real node, fit for the engine's way with cgroups.
func assemble(ctx context.Context, at site, engine container.Version) (*parts, error) {
	cfg, settings := at.cfg, at.cfg.Configuration
	swap, err := swapFor(settings, at.resources.Host.Root)
	if err != nil {
		return nil, err
	}
	cpu := cgroup.CPUTime{Unlimited: !ptr.Deref(settings.CPUCFSQuota, true), Period: ptr.Deref(settings.CPUCFSQuotaPeriod, metav1.Duration{}).Duration}
	allocatable := at.resources.Allocatable()
	memory := allocatable.Memory().Value()
	groups, err := cgroup.New(cgroup.Config{Root: cfg.CgroupRoot, Driver: engine.CgroupDriver, Version: engine.CgroupVersion, MilliCPU: cfg.Size.CPU.MilliValue(), CPUTime: cpu,
		PodPidsLimit: max(0, ptr.Deref(settings.PodPidsLimit, 0)), Exclusive: at.exclusive,
		SingleProcessOOMKill: ptr.Deref(settings.SingleProcessOOMKill, false), Swap: swap, MemoryQoS: memoryQoS(settings, memory)})
	if err != nil {
		return nil, err
	}
	ports, err := hostport.New(cfg.Cluster, cfg.NetNS)
	if err != nil {
		return nil, err
	}
	share(ctx, cfg.RootDir)
	vols, err := volume.New(volume.Config{
		RootDir: cfg.RootDir, NodeName: cfg.NodeName, Client: cfg.Client, Recorder: at.recorder, Clock: cfg.Clock,
		NodeAllocatable: at.resources.Allocatable, Node: at.self, ImageLayers: cfg.Runtime.ImageLayers, InUse: at.inUse, Operations: at.metrics,
	})
	if err != nil {
		return nil, err
	}
	pulls, err := cfg.imagePulls()
	if err != nil {
		return nil, err
	}
	puller, err := image.New(image.Config{
		Credentials: credentials(cfg, at.metrics, vols.Token),
		Verification: image.Verification{
			Policy: settings.ImagePullCredentialsVerificationPolicy, Allowlist: settings.PreloadedImagesVerificationAllowlist,
		},
		Source:  cfg.ImageSource,
		Runtime: cfg.Runtime, Recorder: at.recorder, Clock: cfg.Clock, Secrets: vols.Secret, Pulling: at.metrics.ImagePulling, Pulled: at.metrics.ImagePulled,
		Ensured: at.metrics.ImageEnsured,
		Volumes: func() ([]string, error) { return pulls.volumes(vols.Images) },
		Records: pulls.records, Dir: imageDir(cfg.RootDir), Parallel: int(ptr.Deref(settings.MaxParallelImagePulls, 0)),
		QPS: float32(ptr.Deref(settings.RegistryPullQPS, 0)), Burst: int(settings.RegistryBurst),
	})
	if err != nil {
		return nil, err
	}
	machine := &eviction.Machine{Root: at.resources.Host.Root, Dir: cfg.RootDir, ImageDir: cfg.Runtime.ImageDir}
	if enforces(settings, at.resources.Host) {
		machine.PodMemory = func() (uint64, *uint64, error) {
			all, err := groups.NodeStats()
			return all.WorkingSet, all.MemoryLimit, err
		}
	}
	return &parts{
		images: images{puller}, free: puller.Free, volumes: vols, cgroups: groups, hostPorts: ports,
		resources: func(pod *corev1.Pod, c *corev1.Container) container.Resources {
			return cgroup.ContainerResources(pod, c, cpu)
		},
		oomScoreAdj: func(pod *corev1.Pod, c *corev1.Container) int {
			return cgroup.OOMScoreAdj(pod, c, memory)
		},
		usage: groupUsage{groups}, groups: groups, node: machine,
		garbage: image.NewCollector(puller, image.Limits{
			MinAge: settings.ImageMinimumGCAge.Duration, MaxAge: settings.ImageMaximumGCAge.Duration,
			HighPercent: ptr.Deref(settings.ImageGCHighThresholdPercent, image.Never),
			LowPercent:  ptr.Deref(settings.ImageGCLowThresholdPercent, image.Never), Disk: machine.Images, Removed: at.metrics.ImageCollected,
		}),
	}, nil
}

// memoryQoS is what the settings say of the memory of pods on a node that has so much for them.
func memoryQoS(c *kubeletconfigv1beta1.KubeletConfiguration, allocatable int64) cgroup.MemoryQoS {
	if !configuration.Enabled(c, configuration.MemoryQoS) {
		return cgroup.MemoryQoS{}
	}
	return cgroup.MemoryQoS{
		ThrottlingFactor: ptr.Deref(c.MemoryThrottlingFactor, 0), Allocatable: allocatable,
		Reserve: c.MemoryReservationPolicy == kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy,
	}
}

// volumes are the ids of the images that pods have volumes of on any of the nodes whose store of images is the same; own are those of one
// of them. A node that has no directory of pods yet has none.
func (p *ImagePulls) volumes(own func() ([]string, error)) ([]string, error) {
	all, err := own()
	if err != nil || p.roots == nil {
		return all, err
	}
	roots, err := p.roots()
	if err != nil {
		return nil, fmt.Errorf("listing the nodes that share the images: %w", err)
	}
	for _, root := range roots {
		ids, err := imagevolume.InUse(filepath.Join(root, "pods"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, ids...)
	}
	return all, nil
}

// swapFor is what of the machine's swap containers may use.
func swapFor(settings *kubeletconfigv1beta1.KubeletConfiguration, root string) (cgroup.Swap, error) {
	info, err := meminfo.Read(root)
	return cgroup.Swap{Limited: settings.MemorySwap.SwapBehavior == limitedSwap, Memory: info["MemTotal"], Total: info["SwapTotal"]}, err
}

// limitedSwap is a value of memorySwap.swapBehavior.
const limitedSwap = "LimitedSwap"

// maxBackoff is how long a container that crashes waits at most.
func maxBackoff(settings *kubeletconfigv1beta1.KubeletConfiguration) time.Duration {
	if d := settings.CrashLoopBackOff.MaxContainerRestartPeriod; d != nil {
		return d.Duration
	}
	return restart.Max
}

// resolverConfig is the file that /etc/resolv.conf of pods is made from, "" if they are not to look up names.
func resolverConfig(settings *kubeletconfigv1beta1.KubeletConfiguration) string {
	return ptr.Deref(settings.ResolverConfig, "/etc/resolv.conf")
}

// credentials are what plugins know of registries, nil if there are none.
func credentials(cfg *Config, m *metrics.Metrics, token func(context.Context, *corev1.Pod, string) (string, error)) func(context.Context, *corev1.Pod, string) ([]credentialprovider.Credential, error) {
	if len(cfg.CredentialProviders) == 0 {
		return nil
	}
	return credentialprovider.New(credentialprovider.Config{
		Providers: cfg.CredentialProviders, Plugin: m.Credentials(credentialprovider.Programs{Dir: cfg.CredentialProviderDir}), Token: token, Clock: cfg.Clock,
		Account: func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
			return cfg.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}).Credentials
}

// images puts the puller's reasons into the words of podsync.
type images struct{ puller *image.Puller }

func (i images) Ensure(ctx context.Context, pod *corev1.Pod, ref string, policy corev1.PullPolicy, about *corev1.ObjectReference) (*container.Image, error) {
	img, err := i.puller.Ensure(ctx, pod, image.Wanted{Image: ref, Policy: policy, Of: about})
	if e, ok := errors.AsType[*image.Error](err); ok {
		return nil, &podsync.WaitError{Reason: e.Reason, Message: e.Message}
	}
	return img, err
}

// groupUsage reads cgroup files.
type groupUsage struct{ groups *cgroup.Manager }

func (g groupUsage) Pods() (cgroup.Stats, error) { return g.groups.NodeStats() }

func (g groupUsage) Pod(uid types.UID) (cgroup.Stats, error) { return g.groups.PodStats(uid) }

func (g groupUsage) Container(pod *corev1.Pod, id string) (cgroup.Stats, error) {
	return g.groups.ContainerStats(g.groups.Parent(pod), id)
}

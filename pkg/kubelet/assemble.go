// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/image"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
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
}

// assemble makes the parts of a real node, fit for the engine's way with cgroups.
func assemble(ctx context.Context, at site, engine container.Version) (*parts, error) {
	cfg, settings := at.cfg, at.cfg.Configuration
	groups, err := cgroup.New(cgroup.Config{Root: cfg.CgroupRoot, Driver: engine.CgroupDriver, Version: engine.CgroupVersion,
		PodPidsLimit: max(0, ptr.Deref(settings.PodPidsLimit, 0))})
	if err != nil {
		return nil, err
	}
	ports, err := hostport.New(cfg.Cluster)
	if err != nil {
		return nil, err
	}
	share(ctx, cfg.RootDir)
	vols, err := volume.New(volume.Config{
		RootDir: cfg.RootDir, StandardDir: cfg.StandardDir, NodeName: cfg.NodeName, Client: cfg.Client, Recorder: at.recorder, Clock: cfg.Clock,
		NodeAllocatable: at.resources.Allocatable, Node: at.self, ImageLayers: cfg.Runtime.ImageLayers, InUse: at.inUse,
	})
	if err != nil {
		return nil, err
	}
	puller, err := image.New(image.Config{
		Runtime: cfg.Runtime, Recorder: at.recorder, Clock: cfg.Clock, Secrets: vols.Secret, Volumes: vols.Images,
		Dir: filepath.Join(cfg.RootDir, "image_manager"),
	})
	if err != nil {
		return nil, err
	}
	machine := &eviction.Machine{Root: at.resources.Host.Root, Dir: cfg.RootDir, ImageDir: cfg.Runtime.ImageDir}
	allocatable := at.resources.Allocatable()
	memory := allocatable.Memory().Value()
	return &parts{
		images: images{puller}, volumes: vols, cgroups: groups, hostPorts: ports,
		resources: cgroup.ContainerResources,
		oomScoreAdj: func(pod *corev1.Pod, c *corev1.Container) int {
			return cgroup.OOMScoreAdj(pod, c, memory)
		},
		usage: groupUsage{groups}, groups: groups, node: machine,
		garbage: image.NewCollector(puller, image.Limits{
			MinAge: settings.ImageMinimumGCAge.Duration, MaxAge: settings.ImageMaximumGCAge.Duration,
			HighPercent: ptr.Deref(settings.ImageGCHighThresholdPercent, image.Never),
			LowPercent:  ptr.Deref(settings.ImageGCLowThresholdPercent, image.Never), Disk: machine.Images,
		}),
	}, nil
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/image"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
	"minik8s.io/minik8s/pkg/network/hostport"
)

// assemble makes the parts of a real node, fit for the engine's way with cgroups.
func assemble(_ context.Context, k *Kubelet, engine container.Version) (*parts, error) {
	groups, err := cgroup.New(cgroup.Config{Root: k.cfg.CgroupRoot, Driver: engine.CgroupDriver, Version: engine.CgroupVersion,
		PodPidsLimit: max(0, ptr.Deref(k.cfg.Configuration.PodPidsLimit, 0))})
	if err != nil {
		return nil, err
	}
	ports, err := hostport.New(k.cfg.Cluster)
	if err != nil {
		return nil, err
	}
	vols, err := volume.New(volume.Config{
		RootDir: k.cfg.RootDir, NodeName: k.cfg.NodeName, Client: k.cfg.Client, Recorder: k.recorder, Clock: k.cfg.Clock,
		NodeAllocatable: k.allocatable, Node: (*judge)(k).Current,
	})
	if err != nil {
		return nil, err
	}
	puller, err := image.New(image.Config{
		Runtime: k.cfg.Runtime, Recorder: k.recorder, Clock: k.cfg.Clock, Secrets: vols.Secret, Dir: filepath.Join(k.cfg.RootDir, "image_manager"),
	})
	if err != nil {
		return nil, err
	}
	machine := &eviction.Machine{Root: k.host.Root, Dir: k.cfg.RootDir, ImageDir: k.cfg.Runtime.ImageDir}
	garbage := k.collector(puller, machine)
	allocatable := k.allocatable()
	memory := allocatable.Memory().Value()
	return &parts{
		images: images{puller}, volumes: vols, cgroups: groups, hostPorts: ports,
		resources: cgroup.ContainerResources,
		oomScoreAdj: func(pod *corev1.Pod, c *corev1.Container) int {
			return cgroup.OOMScoreAdj(pod, c, memory)
		},
		usage: groupUsage{groups}, groups: groups, node: resourcesOfNode{machine, k, garbage}, garbage: garbage,
	}, nil
}

// allocatable is what pods may use of this machine, nil if that cannot be found out.
func (k *Kubelet) allocatable() corev1.ResourceList {
	_, allocatable, err := k.resources()
	if err != nil {
		return nil
	}
	return allocatable
}

// images puts the puller's reasons into the words of podsync.
type images struct{ puller *image.Puller }

func (i images) Ensure(ctx context.Context, pod *corev1.Pod, c *corev1.Container, ref *corev1.ObjectReference) (*container.Image, error) {
	img, err := i.puller.Ensure(ctx, pod, c, ref)
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

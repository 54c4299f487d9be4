// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/dra"
	"minik8s.io/minik8s/pkg/kubelet/internal/kubeletdir"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
	"minik8s.io/minik8s/pkg/kubelet/internal/podresources"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
)

// registration finds plugins. A kind of them is a line in the list.
func (k *Kubelet) registration(p *parts) *pluginregistration.Watcher {
	w := pluginregistration.New(pluginregistration.Config{
		Dir: filepath.Join(k.cfg.RootDir, kubeletdir.Registry), Clock: k.cfg.Clock,
		Handlers: map[string]pluginregistration.Handler{
			registrationv1.CSIPlugin:    p.volumes.Drivers(),
			registrationv1.DevicePlugin: k.devices.Registered(),
			registrationv1.DRAPlugin:    k.claims.Registered(),
		},
	})
	k.metrics.Plugins(w.Sockets)
	return w
}

// newDevices makes what knows the devices of the node.
func (k *Kubelet) newDevices(ctx context.Context) *devicemanager.Manager {
	return devicemanager.New(ctx, devicemanager.Config{
		RootDir: k.cfg.RootDir, Clock: k.cfg.Clock, NUMANodes: k.machine.NodeIDs(),
		Known: k.knows, Made: k.made,
		Changed: func() { k.reporter.Poke() }, Wake: k.wake, Counts: k.metrics,
	})
}

// newClaims makes what knows the resource claims of the node's pods.
func (k *Kubelet) newClaims(ctx context.Context) *dra.Manager {
	var claims *dra.Manager
	claims = dra.New(ctx, dra.Config{
		RootDir: k.cfg.RootDir, NodeName: k.cfg.NodeName, Client: k.cfg.Client, Clock: k.cfg.Clock, Wake: k.wake,
		Runs: func(ctx context.Context, uid types.UID) (bool, error) {
			p, err := k.pleg.Pod(ctx, uid)
			return p.Sandbox() != nil, err
		},
		Metrics: k.metrics.DRA(func() map[string]int { return claims.InUse() }),
	})
	return claims
}

// newPodResources makes what tells other programs of the node who has which devices, CPUs and memory.
func (k *Kubelet) newPodResources() *podresources.Server {
	return podresources.New(podresources.Config{
		RootDir: k.cfg.RootDir, Devices: k.devices, Claims: k.claims, CPUs: k.cpus, Memory: k.memory, Intercept: k.metrics.PodResources,
		Pods: func() []*corev1.Pod {
			if r := k.running.Load(); r != nil {
				return r.Active()
			}
			return nil
		}})
}

// refuse ends a pod that the node has taken, and now finds that it has not what the pod needs.
func (k *Kubelet) refuse(life *podsync.Syncer) func(context.Context, *corev1.Pod, status.Failure) {
	return func(ctx context.Context, pod *corev1.Pod, f status.Failure) {
		text := f.Message
		if f.Message = "Pod was rejected: " + text; life.Fail(ctx, pod, f) {
			k.metrics.Rejected(f.Reason)
			k.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, f.Reason, text)
		}
	}
}

// share has the mounts of drivers, which run in containers, be seen on the node. Pods without them run all the same.
func share(ctx context.Context, rootDir string) {
	real, err := filepath.EvalSymlinks(rootDir)
	if err == nil {
		err = mount.Share(real)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "What CSI drivers mount in containers will not be seen on this node")
	}
}

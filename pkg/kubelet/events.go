// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/oom"
	"minik8s.io/minik8s/pkg/kubelet/internal/resolvconf"
)

// checkResolver tells, once, if pods will not get all that the node's resolver configuration says.
func (k *Kubelet) checkResolver() {
	settings := k.cfg.Configuration
	path := resolverConfig(settings)
	if path == "" {
		return
	}
	if text := resolvconf.Check(path, settings.ClusterDomain); text != "" {
		k.recorder.Event(node.Ref(k.cfg.NodeName), corev1.EventTypeWarning, "CheckLimitsForResolvConf", text)
	}
}

// tellKills tells of each process that the kernel kills because the machine has no memory left, and notes the container that any was in, until
// ctx ends. Where its messages may not be read nobody is told.
func (k *Kubelet) tellKills(ctx context.Context, messages string) {
	err := oom.Watch(ctx, messages, func(kill oom.Kill) {
		if kill.Container != "" {
			k.victims.Add(kill.Container)
		}
		if kill.System {
			k.recorder.Event(node.Ref(k.cfg.NodeName), corev1.EventTypeWarning, "SystemOOM", kill.Message())
		}
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Nobody will be told when the machine has no memory left, and of containers what the engine knows")
	}
}

// tellSwap tells that what volumes have in memory may get onto disks, where the machine has swap and nothing can be kept off it.
func (k *Kubelet) tellSwap(root string, kept func() bool) {
	if info, err := meminfo.Read(root); err != nil || info["SwapTotal"] == 0 || kept() {
		return
	}
	k.recorder.Event(node.Ref(k.cfg.NodeName), corev1.EventTypeWarning, "PossibleMemoryBackedVolumesOnDisk", "The tmpfs noswap option is not supported. "+
		"Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be swapped to disk and should no longer be considered secure.")
}

// cgroupV1 is upstream's warning of what it will not run on any more.
const cgroupV1 = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to cgroup v2. " +
	"More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1"

// tellCgroups tells which version of cgroups the engine has.
func (k *Kubelet) tellCgroups(version string) {
	v, err := strconv.Atoi(version)
	if err != nil {
		return
	}
	k.metrics.CgroupVersion(v)
	if v == 1 {
		k.recorder.Event(node.Ref(k.cfg.NodeName), corev1.EventTypeWarning, "CgroupV1", cgroupV1)
	}
}

// limitedSink takes so many events in a second. Who records them does not wait: they queue up, and are dropped when there are too
// many.
type limitedSink struct {
	record.EventSink
	ctx   context.Context //nolint:containedctx // of the kubelet; a sink is given none
	limit flowcontrol.RateLimiter
}

// limitEvents bounds what sink takes; a rate of 0 does not.
func limitEvents(ctx context.Context, sink record.EventSink, qps, burst int32) record.EventSink {
	if qps <= 0 {
		return sink
	}
	return &limitedSink{sink, ctx, flowcontrol.NewTokenBucketRateLimiter(float32(qps), int(burst))}
}

func (s *limitedSink) Create(e *corev1.Event) (*corev1.Event, error) {
	if err := s.limit.Wait(s.ctx); err != nil {
		return nil, err
	}
	return s.EventSink.Create(e)
}

func (s *limitedSink) Update(e *corev1.Event) (*corev1.Event, error) {
	if err := s.limit.Wait(s.ctx); err != nil {
		return nil, err
	}
	return s.EventSink.Update(e)
}

func (s *limitedSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	if err := s.limit.Wait(s.ctx); err != nil {
		return nil, err
	}
	return s.EventSink.Patch(e, data)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// evictor is the Kubelet's pods as eviction sees them. It is used once the parts and workers are there.
type evictor Kubelet

var _ eviction.Pods = (*evictor)(nil)

// evictions makes the watch over the node.
func (k *Kubelet) evictions(n eviction.Node) *eviction.Manager {
	c := k.cfg.Configuration
	return eviction.New(eviction.Config{
		Thresholds: k.thresholds, PressureTransitionPeriod: c.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriod: time.Duration(c.EvictionMaxPodGracePeriod) * time.Second,
		Node:              n, Pods: (*evictor)(k), Recorder: k.recorder, NodeRef: node.Ref(k.cfg.NodeName), Clock: k.cfg.Clock,
		Interval: k.evictEvery, Changed: k.reporter.Poke,
	})
}

// pressure are the conditions that the node is under.
func (k *Kubelet) pressure() []corev1.NodeConditionType {
	k.mu.Lock()
	m := k.eviction
	k.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.Conditions()
}

// resources are what the machine has and what of it pods may use.
func (k *Kubelet) resources() (capacity, allocatable corev1.ResourceList, err error) {
	capacity, err = k.host.Capacity(k.cfg.RootDir, int(k.cfg.Configuration.MaxPods))
	if err != nil {
		return nil, nil, err
	}
	return capacity, node.Allocatable(capacity, append(k.reserved, eviction.Reserved(k.thresholds, capacity))...), nil
}

// reservations are the resources that KubeletConfiguration keeps for others than pods.
func reservations(lists ...map[string]string) ([]corev1.ResourceList, error) {
	var out []corev1.ResourceList
	for _, list := range lists {
		parsed := corev1.ResourceList{}
		for name, text := range list {
			q, err := resource.ParseQuantity(text)
			if err != nil {
				return nil, fmt.Errorf("parsing quantity %q of reserved %s: %w", text, name, err)
			}
			parsed[corev1.ResourceName(name)] = q
		}
		out = append(out, parsed)
	}
	return out, nil
}

// active are the pods that run, or are to run, or are ending.
func (k *Kubelet) active() []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range k.workers.Pods() {
		stage, ok := k.workers.Stage(p.UID)
		if !ok || stage >= podworker.Terminated {
			continue
		}
		// The scheduler counts on what a pod has left as soon as its end is reported, which the watch here brings back later.
		newest := *p
		newest.Status = k.status.Base(p)
		if !podspec.IsTerminal(&newest) {
			out = append(out, p)
		}
	}
	return out
}

func (e *evictor) Active() []*corev1.Pod { return (*Kubelet)(e).active() }

func (e *evictor) Stopped(uid types.UID) bool {
	stage, known := e.workers.Stage(uid)
	return !known || stage >= podworker.Finished
}

func (e *evictor) Evict(ctx context.Context, pod *corev1.Pod, ev eviction.Eviction) {
	f := status.Failure{Reason: eviction.Reason, Message: ev.Message, Grace: ev.Grace, Disrupted: ev.Disrupted, Clear: true}
	if e.life.Fail(ctx, pod, f) {
		klog.FromContext(ctx).Info("Evicting pod", "pod", klog.KObj(pod), "message", ev.Message)
		e.recorder.AnnotatedEventf(podspec.PodRef(pod), ev.Annotations, corev1.EventTypeWarning, eviction.Reason, "%s", ev.Message)
	}
	e.workers.Terminate(pod.UID, ev.Grace)
}

// preempt ends a pod for a critical one, which does not wait for that.
func (e *evictor) preempt(ctx context.Context, pod *corev1.Pod) {
	const reason, message = "Preempting", "Preempted in order to admit critical pod"
	if e.life.Fail(ctx, pod, status.Failure{Reason: reason, Message: message, Disrupted: true}) {
		klog.FromContext(ctx).Info("Preempting pod", "pod", klog.KObj(pod))
		e.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, reason, message)
	}
	e.workers.Terminate(pod.UID, podworker.Grace(pod))
}

func (e *evictor) Usage(ctx context.Context, pod *corev1.Pod, scope eviction.Scope) (*statsv1alpha1.PodStats, error) {
	obs, err := e.pleg.Pod(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	now := e.cfg.Clock.Now()
	ps := &statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}}
	known := false
	if e.parts.usage != nil {
		if u, err := e.parts.usage.Pod(pod.UID); err == nil {
			known = true
			ps.Memory, ps.ProcessStats = stats.Memory(u, 0, now), &statsv1alpha1.ProcessStats{ProcessCount: new(u.Processes)}
		}
	}
	errs := e.containers(ctx, pod, obs, ps, known, scope.Containers)
	if scope.Volumes {
		volumes, err := e.parts.volumes.Usage(ctx, pod)
		errs = append(errs, err)
		for name, u := range volumes {
			ps.VolumeStats = append(ps.VolumeStats, statsv1alpha1.VolumeStats{Name: name, FsStats: fsUsed(u, now)})
		}
	}
	return ps, errors.Join(errs...)
}

// containers measures the newest containers of a pod: their memory if they run and their groups are known, and their disk.
func (e *evictor) containers(ctx context.Context, pod *corev1.Pod, obs *observed.Pod, ps *statsv1alpha1.PodStats, groups, disk bool) (errs []error) {
	now := e.cfg.Clock.Now()
	for spec := range podspec.Containers(pod) {
		c := obs.Latest(spec.Name)
		if c == nil {
			continue
		}
		cs := statsv1alpha1.ContainerStats{Name: c.Name}
		if groups && c.State == container.StateRunning {
			if u, err := e.parts.usage.Container(pod, c.ID); err == nil {
				cs.Memory = stats.Memory(u, 0, now)
			}
		}
		if disk {
			u, err := e.cfg.Runtime.DiskUsage(ctx, c.ID)
			switch {
			case errors.Is(err, container.ErrNotFound):
			case err != nil:
				errs = append(errs, err)
			default:
				cs.Rootfs = &statsv1alpha1.FsStats{Time: metav1.NewTime(now), UsedBytes: new(uint64(max(u.Rootfs, 0)))}
				cs.Logs = &statsv1alpha1.FsStats{Time: metav1.NewTime(now), UsedBytes: new(uint64(max(u.Log, 0)))}
			}
		}
		ps.Containers = append(ps.Containers, cs)
	}
	return errs
}

func fsUsed(u diskusage.Usage, now time.Time) statsv1alpha1.FsStats {
	return statsv1alpha1.FsStats{Time: metav1.NewTime(now), UsedBytes: new(uint64(u.Bytes)), InodesUsed: new(uint64(u.Inodes))}
}

// resourcesOfNode is the machine and what the kubelet can free on it.
type resourcesOfNode struct {
	*eviction.Machine
	kubelet *Kubelet
	garbage garbage
}

var _ eviction.Node = resourcesOfNode{}

// RemoveDeadContainers removes those of pods that have ended; their logs go with them.
func (n resourcesOfNode) RemoveDeadContainers(ctx context.Context) error {
	k := n.kubelet
	var errs []error
	for uid, obs := range k.pleg.Pods() {
		if stage, ok := k.workers.Stage(uid); !ok || stage < podworker.Finished {
			continue
		}
		for _, c := range obs.Containers {
			if c.State != container.StateExited {
				continue
			}
			err := k.pleg.Runtime().RemoveContainer(ctx, c.ID)
			if err == nil {
				err = podlog.Standard().Drop(c)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (n resourcesOfNode) RemoveUnusedImages(ctx context.Context) error {
	_, err := n.garbage.Collect(ctx, math.MaxInt64)
	return err
}

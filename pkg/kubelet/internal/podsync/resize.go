// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// pending is a running container whose resources are not those of the spec (KEP-1287).
type pending struct {
	container *container.Container
	spec      *corev1.Container
	want      container.Resources
	restart   bool // the resizePolicy of what has changed says so
}

// pendingResizes compares what the engine says of running containers with the spec.
func (s *Syncer) pendingResizes(pod *corev1.Pod, obs *observed.Pod) []pending {
	var out []pending
	for _, l := range obs.Alive() {
		c, t := podspec.Find(pod, l.Name)
		if c == nil || t == container.TypeEphemeral || l.State != container.StateRunning || l.Resources == (container.Resources{}) {
			continue
		}
		p := pending{container: l, spec: c, want: s.cfg.Resources(pod, c)}
		have := l.Resources
		p.want.PidsLimit = have.PidsLimit // not the pod's to choose
		if p.want == have {
			continue
		}
		for _, r := range c.ResizePolicy {
			if r.RestartPolicy != corev1.RestartContainer {
				continue
			}
			switch r.ResourceName {
			case corev1.ResourceMemory:
				p.restart = p.restart || p.want.MemoryBytes != have.MemoryBytes
			case corev1.ResourceCPU:
				p.restart = p.restart || p.want.CPUShares != have.CPUShares || p.want.CPUQuota != have.CPUQuota || p.want.CPUPeriod != have.CPUPeriod
			}
		}
		out = append(out, p)
	}
	return out
}

// resize brings running containers to the resources that the spec asks for now, without restarting them.
func (s *Syncer) resize(ctx context.Context, pod *corev1.Pod, obs *observed.Pod) {
	for _, p := range s.pendingResizes(pod, obs) {
		if p.restart {
			continue
		}
		if err := s.cfg.Runtime.UpdateContainer(ctx, p.container.ID, p.want); err != nil {
			if ctx.Err() == nil {
				s.cfg.Recorder.Event(podspec.Ref(pod, p.container.Name), corev1.EventTypeWarning, "ResizeError", fmt.Sprintf("Error updating container resources: %v", err))
			}
		}
	}
}

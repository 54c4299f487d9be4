// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

// group makes the pod's cgroup what the spec asks for now, and returns what the engine calls it. A pod that has to have more for now
// goes on with that, and its status says so.
func (s *Syncer) group(n *notes, pod *corev1.Pod) (parent string, err error) {
	parent, err = s.cfg.Cgroups.EnsurePod(pod)
	tight := ""
	if e, is := errors.AsType[*cgroup.InUseError](err); is {
		tight, err = e.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("making cgroup of pod: %w", err)
	}
	n.mu.Lock()
	told := n.tight == tight
	n.tight = tight
	n.mu.Unlock()
	if tight != "" && !told {
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "ResizeError", "Pod resize error: "+tight)
	}
	return parent, nil
}

// resize brings running containers to the resources that the spec asks for now, and to the CPUs that they are to run on, without
// restarting them. They keep the resources that they have while their pod uses more than it is to have. What fails is tried again
// with the next look.
func (s *Syncer) resize(ctx context.Context, n *notes, look *snapshot.Pod) {
	n.mu.Lock()
	tight := n.tight != ""
	n.mu.Unlock()
	for _, c := range look.Containers() {
		if c.Move != nil {
			if err := s.cfg.Runtime.UpdateContainer(ctx, c.Latest.ID, *c.Move); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "A container runs on other CPUs than it is to", "pod", klog.KObj(look.Pod), "container", c.Spec.Name)
			}
		}
		if tight || c.Resize == nil || c.Resize.Restart {
			continue
		}
		if err := s.cfg.Runtime.UpdateContainer(ctx, c.Latest.ID, c.Resize.Want); err != nil && ctx.Err() == nil {
			s.cfg.Recorder.Event(podspec.Ref(look.Pod, c.Spec.Name), corev1.EventTypeWarning, "ResizeError",
				fmt.Sprintf("Error updating container resources: %v", err))
		}
	}
}

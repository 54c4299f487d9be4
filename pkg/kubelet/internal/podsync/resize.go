// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
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
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "FailedCreatePodContainer", fmt.Sprintf("unable to ensure pod container exists: %v", err))
		return "", fmt.Errorf("making cgroup of pod: %w", err)
	}
	n.mu.Lock()
	told := n.tight == tight
	n.tight = tight
	n.mu.Unlock()
	if tight != "" && !told {
		s.resizeError(pod, tight)
	}
	return parent, nil
}

func (s *Syncer) resizeError(pod *corev1.Pod, problem string) {
	s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "ResizeError", allocation.Message("Pod resize error", pod, pod.Generation, problem))
}

// resized tells that a pod has got what it was resized to, unless it is over.
func (s *Syncer) resized(pod *corev1.Pod, over bool) {
	if generation, is := s.cfg.Resizes.Complete(pod.UID, pod.Generation); is && !over {
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeNormal, "ResizeCompleted", allocation.Message("Pod resize completed", pod, generation, ""))
	}
}

// resize brings running containers to the resources that the spec asks for now, and to the CPUs that they are to run on, without
// restarting them. They keep the resources that they have while their pod, or one of them, uses more than it is to have. What fails is
// tried again with the next look. grouped is how long the pod's cgroup has taken, which is part of it.
func (s *Syncer) resize(ctx context.Context, n *notes, look *snapshot.Pod, grouped time.Duration) {
	began := s.cfg.Clock.Now()
	n.mu.Lock()
	tight := n.tight != ""
	n.mu.Unlock()
	var due []*snapshot.Container
	for _, c := range look.Containers() {
		if c.Move != nil {
			if err := s.cfg.Runtime.UpdateContainer(ctx, c.Latest.ID, *c.Move); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "A container runs on other CPUs than it is to", "pod", klog.KObj(look.Pod), "container", c.Spec.Name)
			}
		}
		if !tight && c.Resize != nil && !c.Resize.Restart {
			due = append(due, c)
		}
	}
	problem := ""
	if err := s.update(ctx, look.Pod, due); err != nil {
		problem = err.Error()
	}
	if ctx.Err() != nil {
		return
	}
	if s.cfg.Resized != nil && (tight || len(due) > 0 || s.cfg.Resizes.Begun(look.UID) != 0) {
		s.cfg.Resized(grouped+s.cfg.Clock.Since(began), !tight && problem == "")
	}
	n.mu.Lock()
	told := n.unresized == problem
	n.unresized = problem
	n.mu.Unlock()
	if problem != "" && !told {
		s.resizeError(look.Pod, problem)
	}
}

// update gives containers the resources that they ask for, once all of them can be. The kernel would refuse what is less than one uses, or
// end its processes.
func (s *Syncer) update(ctx context.Context, pod *corev1.Pod, list []*snapshot.Container) error {
	for _, c := range list {
		have, want := c.Latest.Resources.MemoryBytes, c.Resize.Want.MemoryBytes
		if want <= 0 || have > 0 && have <= want {
			continue
		}
		if err := s.cfg.Cgroups.Shrink(pod, c.Latest, want); err != nil {
			return err
		}
	}
	for _, c := range list {
		if err := s.cfg.Runtime.UpdateContainer(ctx, c.Latest.ID, c.Resize.Want); err != nil {
			return err
		}
	}
	return nil
}

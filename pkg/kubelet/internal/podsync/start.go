// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// Waiting reasons, as upstream spells them.
const (
	reasonCrashLoop     = "CrashLoopBackOff"
	reasonConfig        = "CreateContainerConfigError"
	reasonCreate        = "CreateContainerError"
	reasonRun           = "RunContainerError"
	reasonPostStart     = "PostStartHookError"
	reasonImageUnstated = "ErrImagePull"
)

// containers carries out what is to be done in a running sandbox.
func (s *Syncer) containers(ctx context.Context, m *memory, pod *corev1.Pod, obs *observed.Pod, a Actions) error {
	ips, err := s.connect(ctx, m, pod, a.Sandbox)
	if err != nil {
		return err
	}
	parent, err := s.cfg.Cgroups.EnsurePod(pod)
	if err != nil {
		return fmt.Errorf("making cgroup of pod: %w", err)
	}
	if err := s.mount(ctx, pod, ips); err != nil {
		return err
	}
	for _, k := range a.Kill {
		if err := s.killOne(ctx, m, pod, k, s.graceFor(pod, k), nil); err != nil {
			return err
		}
	}
	for _, id := range a.Remove {
		if err := s.remove(ctx, obs, id); err != nil {
			return err
		}
	}
	for _, h := range a.Held {
		s.hold(m, pod, h)
	}
	s.resize(ctx, pod, obs)
	var errs []error
	for _, st := range a.Start {
		err := s.start(ctx, m, pod, obs, a.Sandbox, st, ips, parent)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.mu.Lock()
		delete(m.waiting, st.Name)
		if w, ok := errors.AsType[*WaitError](err); ok {
			m.waiting[st.Name] = status.Waiting{Reason: w.Reason, Message: w.Message}
		}
		m.mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("starting container %q: %w", st.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Syncer) hold(m *memory, pod *corev1.Pod, h Held) {
	m.mu.Lock()
	m.waiting[h.Name] = status.Waiting{Reason: reasonCrashLoop,
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", h.Delay, h.Name, podspec.FullName(pod))}
	m.mu.Unlock()
	s.cfg.Recorder.Event(podspec.Ref(pod, h.Name), corev1.EventTypeWarning, "BackOff",
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", h.Name, podspec.FullName(pod)))
}

// start creates and starts one container and runs its postStart hook. Errors are *WaitError unless ctx ended.
func (s *Syncer) start(ctx context.Context, m *memory, pod *corev1.Pod, obs *observed.Pod, sb *container.Sandbox, st Start, ips []string, parent string) error {
	c, _ := podspec.Find(pod, st.Name)
	if c == nil {
		return fmt.Errorf("container %q is not in the pod's spec", st.Name)
	}
	ref := podspec.Ref(pod, st.Name)
	failed := func(reason string, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %v", err))
		return &WaitError{Reason: reason, Message: err.Error()}
	}
	img, err := s.cfg.Images.Ensure(ctx, pod, c, ref)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w := &WaitError{Reason: reasonImageUnstated, Message: err.Error()}
		errors.As(err, &w)
		s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "Failed", "Error: "+w.Reason)
		return w
	}
	target := ""
	if st.Type == container.TypeEphemeral {
		if name := targetOf(pod, st.Name); name != "" {
			l := obs.Latest(name)
			if l == nil || l.State != container.StateRunning {
				return failed(reasonConfig, fmt.Errorf("unable to find target container %q", name))
			}
			target = l.ID
		}
	}
	cfg, err := s.cfg.Builder.Container(ctx, launch.Request{Pod: pod, Container: c, Type: st.Type, Attempt: st.Attempt, Image: img, PodIPs: ips, CgroupParent: parent, Target: target})
	if err != nil {
		return failed(reasonConfig, err)
	}
	var id string
	if err := s.cfg.Starts.Do(ctx, func() (err error) {
		whole, done := s.whole(ctx)
		defer done()
		if id, err = s.cfg.Runtime.CreateContainer(whole, sb.ID, cfg); err != nil {
			return failed(reasonCreate, err)
		}
		s.cfg.Recorder.Event(ref, corev1.EventTypeNormal, "Created", "Container created")
		m.mu.Lock()
		if !st.Exited.IsZero() {
			m.backoff[st.Name] = m.backoff[st.Name].Next(st.Exited)
		}
		m.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.cfg.Runtime.StartContainer(whole, id); err != nil {
			return failed(reasonRun, err)
		}
		s.cfg.Recorder.Event(ref, corev1.EventTypeNormal, "Started", "Container started")
		return nil
	}); err != nil {
		return err
	}
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	ip := ""
	if len(ips) > 0 {
		ip = ips[0]
	}
	if err := s.hooks.Run(ctx, c.Lifecycle.PostStart, c, id, ip); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The hook's output stays out of the event, because it may hold secrets and events are widely readable.
		s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		l := &container.Container{ID: id, Name: c.Name}
		if kerr := s.killOne(ctx, m, pod, Kill{Container: l, Reason: KillChanged, Message: "FailedPostStartHook"}, s.graceFor(pod, Kill{Container: l}), nil); kerr != nil {
			return kerr
		}
		return &WaitError{Reason: reasonPostStart, Message: err.Error()}
	}
	return nil
}

func targetOf(pod *corev1.Pod, ephemeral string) string {
	for _, e := range pod.Spec.EphemeralContainers {
		if e.Name == ephemeral {
			return e.TargetContainerName
		}
	}
	return ""
}

// remove removes a dead container with its termination log and the links to its log.
func (s *Syncer) remove(ctx context.Context, obs *observed.Pod, id string) error {
	if err := s.cfg.Runtime.RemoveContainer(ctx, id); err != nil {
		return fmt.Errorf("removing container: %w", err)
	}
	for _, c := range obs.Containers {
		if c.ID != id {
			continue
		}
		if err := s.cfg.Logs.Drop(c); err != nil {
			return fmt.Errorf("removing links to its log: %w", err)
		}
		if c.TerminationMessageFile != "" {
			if err := os.Remove(c.TerminationMessageFile); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("removing termination log: %w", err)
			}
		}
	}
	return nil
}

// graceFor is how long one container may take to stop, while its pod goes on.
func (s *Syncer) graceFor(pod *corev1.Pod, k Kill) time.Duration {
	grace := 30 * time.Second
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	c, _ := podspec.Find(pod, k.Container.Name)
	if c == nil {
		return grace
	}
	var p *corev1.Probe
	switch k.Reason {
	case KillLiveness:
		p = c.LivenessProbe
	case KillStartup:
		p = c.StartupProbe
	}
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	return grace
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
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
func (s *Syncer) containers(ctx context.Context, n *notes, look *snapshot.Pod, a Actions) error {
	pod := look.Pod
	ips, err := s.connect(ctx, n, pod, a.Sandbox)
	if err != nil {
		return err
	}
	parent, err := s.group(n, pod)
	if err != nil {
		return err
	}
	if err := s.mount(ctx, pod, ips); err != nil {
		return err
	}
	for _, k := range a.Kill {
		if err := s.killOne(ctx, n, look, k, graceFor(pod, k), nil); err != nil {
			return err
		}
	}
	for _, c := range a.Remove {
		if err := s.remove(ctx, c); err != nil {
			return err
		}
	}
	for _, h := range a.Held {
		s.hold(n, pod, h)
	}
	s.resize(ctx, n, look)
	var errs []error
	in := surroundings{ips: ips, cgroup: parent, images: s.volumeImages(ctx, pod, a.Start)}
	for _, st := range a.Start {
		name := st.Of.Spec.Name
		err := s.start(ctx, n, look, st, in)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.mu.Lock()
		delete(n.waiting, name)
		if w, ok := errors.AsType[*WaitError](err); ok {
			n.waiting[name] = snapshot.Waiting{Reason: w.Reason, Message: w.Message}
		}
		n.mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("starting container %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// hold has a container that waits for its back-off to pass shown so.
func (s *Syncer) hold(n *notes, pod *corev1.Pod, h *snapshot.Container) {
	name := h.Spec.Name
	n.mu.Lock()
	n.waiting[name] = snapshot.Waiting{Reason: reasonCrashLoop,
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", h.Backoff.Delay, name, podspec.FullName(pod))}
	n.mu.Unlock()
	s.cfg.Recorder.Event(podspec.Ref(pod, name), corev1.EventTypeWarning, "BackOff",
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, podspec.FullName(pod)))
}

// surroundings are what the containers of a pod start in.
type surroundings struct {
	ips    []string
	cgroup string
	images map[string]volumeImage // by volume
}

// volumeImage is the image that a volume is of, or why it is not there.
type volumeImage struct {
	image *container.Image
	err   error
}

// volumeImages brings the images of volumes to the node that containers which are to start have mounted. Of one that cannot be had
// only the containers that mount it are told.
func (s *Syncer) volumeImages(ctx context.Context, pod *corev1.Pod, starts []Start) map[string]volumeImage {
	out := map[string]volumeImage{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		mounted := func(st Start) bool {
			return slices.ContainsFunc(st.Of.Spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		}
		if v.Image == nil || !slices.ContainsFunc(starts, mounted) {
			continue
		}
		img, err := s.cfg.Images.Ensure(ctx, pod, v.Image.Reference, v.Image.PullPolicy, podspec.PodRef(pod))
		out[v.Name] = volumeImage{img, err}
	}
	return out
}

// of are the images of the volumes that a container mounts, by volume. Its error is that of one which is not there.
func (in surroundings) of(c *corev1.Container) (map[string]*container.Image, error) {
	out := map[string]*container.Image{}
	for _, m := range c.VolumeMounts {
		if v, is := in.images[m.Name]; is {
			if v.err != nil {
				return nil, v.err
			}
			out[m.Name] = v.image
		}
	}
	return out, nil
}

// start creates and starts one container and runs its postStart hook. Errors are *WaitError unless ctx ended.
func (s *Syncer) start(ctx context.Context, n *notes, look *snapshot.Pod, st Start, in surroundings) error {
	pod, c := look.Pod, st.Of.Spec
	ref := podspec.Ref(pod, c.Name)
	failed := func(reason string, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %v", err))
		return &WaitError{Reason: reason, Message: err.Error()}
	}
	volumes, err := in.of(c)
	var img *container.Image
	if err == nil {
		img, err = s.cfg.Images.Ensure(ctx, pod, c.Image, c.ImagePullPolicy, ref)
	}
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
	if name := st.Of.Target; name != "" {
		t := look.Find(name)
		if t == nil || !t.Running() {
			return failed(reasonConfig, fmt.Errorf("unable to find target container %q", name))
		}
		target = t.Latest.ID
	}
	cfg, err := s.cfg.Builder.Container(ctx, launch.Request{
		Pod: pod, Container: c, Type: st.Of.Type, Attempt: st.Attempt, Image: img, Volumes: volumes, PodIPs: in.ips,
		RecursiveReadOnly: s.cfg.RecursiveReadOnly(look.Sandbox.Handler), CgroupParent: in.cgroup, Target: target,
		Labels: snapshot.RunLabels(look.Run),
	})
	if err != nil {
		reason := reasonConfig
		if _, is := errors.AsType[*plugin.EngineError](err); is {
			reason = reasonCreate
		}
		return failed(reason, err)
	}
	var id string
	if err := s.cfg.Starts.Do(ctx, func() (err error) {
		whole, done := s.whole(ctx)
		defer done()
		if id, err = s.cfg.Runtime.CreateContainer(whole, look.Sandbox.ID, cfg); err != nil {
			return failed(reasonCreate, err)
		}
		s.cfg.Recorder.Event(ref, corev1.EventTypeNormal, "Created", "Container created")
		n.mu.Lock()
		if !st.Exited.IsZero() {
			n.backoff[c.Name] = n.backoff[c.Name].Next(st.Exited, s.cfg.MaxBackoff)
		}
		n.mu.Unlock()
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
	if len(in.ips) > 0 {
		ip = in.ips[0]
	}
	if err := s.hooks.Run(ctx, c.Lifecycle.PostStart, c, id, ip); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The hook's output stays out of the event, because it may hold secrets and events are widely readable.
		s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		k := Kill{Container: &container.Container{ID: id, Name: c.Name}, Of: st.Of, Reason: KillChanged, Message: "FailedPostStartHook"}
		if kerr := s.killOne(ctx, n, look, k, graceFor(pod, k), nil); kerr != nil {
			return kerr
		}
		return &WaitError{Reason: reasonPostStart, Message: err.Error()}
	}
	return nil
}

// remove removes a dead container with its termination log and the links to its log.
func (s *Syncer) remove(ctx context.Context, c *container.Container) error {
	if err := orDead(ctx, s.cfg.Runtime.RemoveContainer(ctx, c.ID)); err != nil {
		return fmt.Errorf("removing container: %w", err)
	}
	if err := s.cfg.Logs.Drop(c); err != nil {
		return fmt.Errorf("removing links to its log: %w", err)
	}
	if c.TerminationMessageFile == "" {
		return nil
	}
	if err := os.Remove(c.TerminationMessageFile); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing termination log: %w", err)
	}
	return nil
}

// graceFor is how long one container may take to stop, while its pod goes on.
func graceFor(pod *corev1.Pod, k Kill) time.Duration {
	grace := 30 * time.Second
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	if k.Of == nil {
		return grace
	}
	if k.Reason == KillAll {
		return 0
	}
	var p *corev1.Probe
	switch k.Reason {
	case KillLiveness:
		p = k.Of.Spec.LivenessProbe
	case KillStartup:
		p = k.Of.Spec.StartupProbe
	}
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	return grace
}

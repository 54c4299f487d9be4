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
func (s *Syncer) containers(ctx context.Context, n *notes, look *snapshot.Pod, a Actions, first made) error {
	pod := look.Pod
	ips, err := s.connect(ctx, n, pod, a.Sandbox)
	if err != nil {
		return err
	}
	began := s.cfg.Clock.Now()
	parent, err := s.group(n, pod)
	if err != nil {
		return err
	}
	grouped := s.cfg.Clock.Since(began)
	if err := s.mount(ctx, pod, ips); err != nil {
		return err
	}
	for _, k := range a.Kill {
		if err := s.killOne(ctx, n, look, k, graceFor(pod, k), nil); err != nil {
			return err
		}
	}
	for _, c := range a.Remove {
		if first[c.Name].id == c.ID {
			continue // it is to be started
		}
		if err := s.remove(ctx, c); err != nil {
			return err
		}
	}
	for _, h := range a.Held {
		s.hold(n, pod, h)
	}
	s.resize(ctx, n, look, grouped)
	var errs []error
	in := surroundings{ips: ips, cgroup: parent, images: map[string]volumeImage{}}
	for _, st := range a.Start {
		name := st.Of.Spec.Name
		m, is := first[name]
		if !is {
			s.volumeImages(ctx, pod, st, in.images)
			m.cfg, m.err = s.resolve(ctx, look, st, in)
		}
		err := s.start(ctx, n, look, st, in.ips, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.mu.Lock()
		delete(n.waiting, name)
		if w, ok := errors.AsType[*WaitError](err); ok {
			n.waiting[name] = snapshot.Waiting{Reason: w.Reason, Message: w.Message}
			s.cfg.NotStarted(st.Of.Type, w.Reason)
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

// volumeImages brings the images of volumes to the node that a container which is to start has mounted, but for those that are known.
// Of one that cannot be had only the containers that mount it are told.
func (s *Syncer) volumeImages(ctx context.Context, pod *corev1.Pod, st Start, known map[string]volumeImage) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		mounted := slices.ContainsFunc(st.Of.Spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		if _, is := known[v.Name]; is || v.Image == nil || !mounted {
			continue
		}
		img, err := s.cfg.Images.Ensure(ctx, pod, v.Image.Reference, v.Image.PullPolicy, podspec.PodRef(pod))
		known[v.Name] = volumeImage{img, err}
	}
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

// creation is a container that was made, or how one is to be made: id is "" until it is. err is why it cannot be, which was told.
type creation struct {
	cfg container.ContainerConfig
	id  string
	err error
}

// made are creations by the name of the container.
type made map[string]creation

// make creates a container that is started later.
func (s *Syncer) make(ctx context.Context, n *notes, look *snapshot.Pod, st Start, in surroundings) (c creation) {
	if c.cfg, c.err = s.resolve(ctx, look, st, in); c.err != nil {
		return c
	}
	c.err = s.cfg.Starts.Do(ctx, func() (err error) {
		c.id, err = s.create(ctx, n, look, st, c.cfg)
		return err
	})
	return c
}

// resolve gets a container's image and all else that it needs. Errors are *WaitError unless ctx ended.
func (s *Syncer) resolve(ctx context.Context, look *snapshot.Pod, st Start, in surroundings) (container.ContainerConfig, error) {
	pod, c := look.Pod, st.Of.Spec
	ref := podspec.Ref(pod, c.Name)
	none := container.ContainerConfig{}
	volumes, err := in.of(c)
	var img *container.Image
	if err == nil {
		img, err = s.cfg.Images.Ensure(ctx, pod, c.Image, c.ImagePullPolicy, ref)
	}
	if err != nil {
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		w := &WaitError{Reason: reasonImageUnstated, Message: err.Error()}
		errors.As(err, &w)
		s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "Failed", "Error: "+w.Reason)
		return none, w
	}
	target := ""
	if name := st.Of.Target; name != "" {
		t := look.Find(name)
		if t == nil || !t.Running() {
			return none, s.failed(ctx, ref, reasonConfig, fmt.Errorf("unable to find target container %q", name))
		}
		target = t.Latest.ID
	}
	cfg, err := s.cfg.Builder.Container(ctx, launch.Request{
		Pod: pod, Container: c, Type: st.Of.Type, Attempt: st.Attempt, Image: img, Volumes: volumes, PodIPs: in.ips,
		RecursiveReadOnly: s.cfg.RecursiveReadOnly(look.Sandbox.Handler), CgroupParent: in.cgroup, Target: target,
		Handler: look.Sandbox.Handler, Labels: snapshot.Labels(c, look.Run),
	})
	if err != nil {
		reason := reasonConfig
		if _, is := errors.AsType[*plugin.EngineError](err); is {
			reason = reasonCreate
		}
		return none, s.failed(ctx, ref, reason, err)
	}
	return cfg, nil
}

// failed tells why a container cannot be started, unless ctx ended.
func (s *Syncer) failed(ctx context.Context, ref *corev1.ObjectReference, reason string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %v", err))
	return &WaitError{Reason: reason, Message: err.Error()}
}

// create has the engine make a container.
func (s *Syncer) create(ctx context.Context, n *notes, look *snapshot.Pod, st Start, cfg container.ContainerConfig) (string, error) {
	ref := podspec.Ref(look.Pod, cfg.Name)
	whole, done := s.whole(ctx)
	defer done()
	id, err := s.cfg.Runtime.CreateContainer(whole, look.Sandbox.ID, cfg)
	if err != nil {
		return "", s.failed(ctx, ref, reasonCreate, err)
	}
	s.cfg.Recorder.Event(ref, corev1.EventTypeNormal, "Created", "Container created")
	backoff := st.Of.Backoff
	if !st.Exited.IsZero() {
		backoff = backoff.Next(st.Exited, s.cfg.Clock.Now(), s.cfg.MaxBackoff)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.backoff[cfg.Name] = backoff
	return id, nil
}

// start creates one container, if it was not yet, starts it and runs its postStart hook. Errors are *WaitError unless ctx ended.
func (s *Syncer) start(ctx context.Context, n *notes, look *snapshot.Pod, st Start, ips []string, m creation) error {
	if m.err != nil {
		return m.err
	}
	pod, c := look.Pod, st.Of.Spec
	ref := podspec.Ref(pod, c.Name)
	id := m.id
	if err := s.cfg.Starts.Do(ctx, func() (err error) {
		if id == "" {
			if id, err = s.create(ctx, n, look, st, m.cfg); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		whole, done := s.whole(ctx)
		defer done()
		if err := s.cfg.Runtime.StartContainer(whole, id); err != nil {
			return s.failed(ctx, ref, reasonRun, err)
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
	if err := s.hooks.Run(ctx, pod, c.Lifecycle.PostStart, c, id, ip); err != nil {
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// minGrace is what a container always gets, so that neither a hook that took all the time nor a grace period of a second or none turns
// SIGTERM into SIGKILL.
const minGrace = 2 * time.Second

// turn lets sidecars wait for those who rely on them.
type turn struct {
	// wait are closed when the containers that go first have stopped.
	wait []<-chan struct{}
	// done is closed when this one has.
	done chan struct{}
}

// kill stops the containers that run, all at once except sidecars: these go after the others, the last one first.
func (s *Syncer) kill(ctx context.Context, n *notes, look *snapshot.Pod, grace time.Duration) error {
	alive := look.Observed.Alive()
	if len(alive) == 0 {
		return nil
	}
	order := map[string]int{} // sidecars by their place
	for i, c := range look.Init {
		if c.Sidecar {
			order[c.Spec.Name] = i + 1
		}
	}
	turns := make([]*turn, len(alive))
	for i := range alive {
		turns[i] = &turn{done: make(chan struct{})}
	}
	for i, c := range alive {
		if order[c.Name] == 0 {
			continue
		}
		for j, other := range alive {
			if o := order[other.Name]; j != i && (o == 0 || o > order[c.Name]) {
				turns[i].wait = append(turns[i].wait, turns[j].done)
			}
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(alive))
	for i, c := range alive {
		wg.Go(func() {
			defer close(turns[i].done)
			errs[i] = s.killOne(ctx, n, look, Kill{Container: c, Of: look.Find(c.Name), Reason: KillPod}, grace, turns[i].wait)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// killOne stops a container within grace: preStop hook, then the wait for its turn, both counted, then the signal.
func (s *Syncer) killOne(ctx context.Context, n *notes, look *snapshot.Pod, k Kill, grace time.Duration, before []<-chan struct{}) error {
	id := k.Container.ID
	n.mu.Lock()
	announced, hooked := n.killed[id], n.preStopped[id]
	n.killed[id], n.preStopped[id] = true, true
	n.mu.Unlock()
	ref := podspec.Ref(look.Pod, k.Container.Name)
	if !announced {
		message := k.Message
		if message == "" {
			message = fmt.Sprintf("Stopping container %s", k.Container.Name)
		}
		s.cfg.Recorder.Event(ref, corev1.EventTypeNormal, "Killing", message)
	}
	began := s.cfg.Clock.Now()
	left := func() time.Duration { return grace - s.cfg.Clock.Since(began) }

	hook := k.Of != nil && k.Of.Spec.Lifecycle != nil && k.Of.Spec.Lifecycle.PreStop != nil
	if hook && grace > 0 && !hooked && k.Container.State != container.StateUnknown {
		if err := s.preStop(ctx, look.Pod, k.Of.Spec, id, grace); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.cfg.Recorder.Event(ref, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		}
	}
	if len(before) > 0 && left() > 0 {
		t := s.cfg.Clock.NewTimer(left())
		defer t.Stop()
		for _, done := range before {
			select {
			case <-done:
				continue
			case <-t.C():
			case <-ctx.Done():
				return ctx.Err()
			}
			break
		}
	}
	if err := s.cfg.Runtime.StopContainer(ctx, id, max(left(), minGrace), ""); err != nil {
		return fmt.Errorf("stopping container %q: %w", k.Container.Name, err)
	}
	s.cfg.Probes.End(look.UID, id)
	return nil
}

func (s *Syncer) preStop(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, grace time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ip := ""
	st := s.cfg.Status.Base(pod)
	if ip = st.PodIP; ip == "" && len(s.cfg.HostIPs) > 0 && pod.Spec.HostNetwork {
		ip = s.cfg.HostIPs[0]
	}
	done := make(chan error, 1)
	go func() { done <- s.hooks.Run(ctx, pod, c.Lifecycle.PreStop, c, id, ip) }()
	t := s.cfg.Clock.NewTimer(grace)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C():
		cancel()
		<-done
		return fmt.Errorf("preStop hook of container %q took longer than the grace period %s", c.Name, grace)
	}
}

// Terminate stops all of a pod within grace. When it returns nil nothing runs, and the pod's last status is on its way.
func (s *Syncer) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	n := s.notes(pod.UID)
	f, err := s.recall(n, pod)
	if err != nil {
		klog.FromContext(ctx).Error(err, "A pod ends, and why is not known", "pod", klog.KObj(pod))
	}
	if f != nil && f.Grace > 0 {
		grace = min(grace, f.Grace)
	}
	if f != nil && (f.Clear || f.Disrupted) {
		defer s.hurry(ctx, n, pod, grace)()
	}
	look, err := s.look(ctx, n, pod)
	if err != nil {
		s.unknown(ctx, pod, err)
		return err
	}
	s.watch(look) // an earlier process may have begun to stop it
	s.cfg.Probes.StopKilling(pod.UID)
	if look, err = s.look(ctx, n, pod); err != nil {
		return err
	}
	s.publish(ctx, n, look, false, false)
	stopTelling := s.tell(ctx, n, pod)
	err = s.kill(ctx, n, look, grace)
	stopTelling()
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "FailedKillPod", fmt.Sprintf("error killing pod: %v", err))
		}
		return err
	}
	if err := s.close(ctx, n, look); err != nil {
		return err
	}
	if err := s.cfg.Claims.Unprepare(ctx, pod.UID); err != nil {
		return err // devices are free for others as soon as the API server knows of the end
	}
	if look, err = s.look(ctx, n, pod); err != nil {
		return err
	}
	s.publish(ctx, n, look, true, true)
	return nil
}

// leastPatience is how long a pod that the kubelet ends by its own decision may take at least before it is late, as upstream's.
const leastPatience = 10 * time.Second

// hurry tells, once, if a pod that the kubelet ends by its own decision has not ended after its grace period and half of that.
func (s *Syncer) hurry(ctx context.Context, n *notes, pod *corev1.Pod, grace time.Duration) (stop func()) {
	n.mu.Lock()
	if n.ending.IsZero() {
		n.ending = s.cfg.Clock.Now()
	}
	left, late := max(grace+grace/2, leastPatience)-s.cfg.Clock.Since(n.ending), n.late
	n.mu.Unlock()
	if late {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := s.cfg.Clock.NewTimer(left)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return
		case <-t.C():
		}
		n.mu.Lock()
		n.late = true
		n.mu.Unlock()
		s.cfg.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, "ExceededGracePeriod", "Container runtime did not kill the pod within specified grace period.")
	}()
	return func() { cancel(); <-done }
}

// tell publishes what readiness probes find out about a pod that is being stopped: traffic goes to it for as long as it is ready, or only
// until it is not, by its own choice.
func (s *Syncer) tell(ctx context.Context, n *notes, pod *corev1.Pod) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-n.probed:
			}
			if look, err := s.look(ctx, n, pod); err == nil && ctx.Err() == nil {
				s.publish(ctx, n, look, false, false)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// close stops the sandboxes of a pod whose containers have ended, and looks meanwhile whether they have: the engine is busy with each
// for some time after it has said so.
func (s *Syncer) close(ctx context.Context, n *notes, before *snapshot.Pod) error {
	var stopped error
	var wg sync.WaitGroup
	wg.Go(func() { stopped = s.stopSandboxes(ctx, before.Pod, before.Observed) })
	look, err := s.look(ctx, n, before.Pod)
	wg.Wait()
	if err != nil {
		return err
	}
	if alive := look.Observed.Alive(); len(alive) > 0 {
		return fmt.Errorf("container %q is still running", alive[0].Name)
	}
	s.cfg.Probes.Remove(before.UID)
	return stopped
}

// Fail makes f the reason for the end of a pod, which its worker has to be told to bring about. It returns false if there is a
// reason already. A kubelet that is killed meanwhile ends the pod when it starts again; if that cannot be noted, because the disk
// is full perhaps, the pod is ended all the same.
func (s *Syncer) Fail(ctx context.Context, pod *corev1.Pod, f status.Failure) bool {
	n := s.notes(pod.UID)
	if before, err := s.recall(n, pod); err == nil && before != nil {
		return false
	}
	if !f.Transient {
		if err := s.cfg.Failures.Fail(pod.UID, f); err != nil {
			klog.FromContext(ctx).Error(err, "A pod that is ended would be started again by the next kubelet", "pod", klog.KObj(pod))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return false
	}
	n.failure = &f
	return true
}

// recall returns why the kubelet has ended a pod, nil if it has not; an earlier process may have decided so. An error is that this could
// not be found out, which may be another time.
func (s *Syncer) recall(n *notes, pod *corev1.Pod) (*status.Failure, error) {
	n.mu.Lock()
	f, recalled := n.failure, n.recalled
	n.mu.Unlock()
	if f != nil || recalled {
		return f, nil
	}
	kept, err := s.cfg.Failures.Failure(pod.UID)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recalled = true
	if n.failure == nil {
		n.failure = kept
	}
	return n.failure, nil
}

// Cleanup gives back what a stopped pod holds; see podworker.Life.
func (s *Syncer) Cleanup(ctx context.Context, pod *corev1.Pod, deleted bool) error {
	obs, err := s.cfg.Observe(ctx, pod.UID)
	if err != nil {
		return err
	}
	if err := s.stopSandboxes(ctx, pod, obs); err != nil {
		return err
	}
	f, err := s.recall(s.notes(pod.UID), pod)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The containers of a pod that has ended stay, for why it has is not known", "pod", klog.KObj(pod))
	}
	removed := deleted || f != nil && f.Clear
	if obs != nil {
		containers := obs.Containers
		if !removed {
			containers = nil // kubectl logs reads them
		}
		if err := s.removeStopped(ctx, obs.Sandboxes, containers); err != nil {
			return err
		}
	}
	if err := s.cfg.Volumes.Unmount(ctx, pod.UID); err != nil {
		return fmt.Errorf("unmounting volumes: %w", err)
	}
	if err := s.removeCgroup(pod); err != nil || !removed {
		return err
	}
	if err := s.cfg.Logs.DropPod(pod.UID); err != nil {
		return fmt.Errorf("removing links to logs: %w", err)
	}
	if !deleted {
		return nil
	}
	if err := RemoveDir(s.cfg.Builder.PodDir(pod)); err != nil {
		return err
	}
	s.cfg.Status.Delete(pod)
	return nil
}

// Forget drops what is remembered of a pod.
func (s *Syncer) Forget(pod *corev1.Pod) {
	s.mu.Lock()
	delete(s.pods, pod.UID)
	s.mu.Unlock()
	s.cfg.Status.Forget(pod.UID)
	s.cfg.Resizes.Forget(pod.UID)
}

func (s *Syncer) removeCgroup(pod *corev1.Pod) error {
	if err := s.cfg.Cgroups.RemovePod(pod.UID); err != nil {
		return fmt.Errorf("removing cgroup of pod: %w", err)
	}
	return nil
}

// RemoveDir removes a pod's directory except its volumes, which must be gone: what is still mounted there may be
// somebody's data.
func RemoveDir(dir string) error {
	for _, name := range []string{"etc-hosts", "resolv.conf", "containers"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("removing pod directory: %w", err)
		}
	}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing pod directory: %w", err)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("removing pod directory: %w", err)
		}
	}
	if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing pod directory: %w", err)
	}
	return nil
}

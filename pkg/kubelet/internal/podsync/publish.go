// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

const (
	// maxMessage bounds one termination message, maxMessages all of a pod.
	maxMessage, maxMessages = 4096, 12 << 10
	// maxFallback bytes of the last fallbackLines lines of a log stand in for a missing message.
	maxFallback, fallbackLines = 2048, 80
	// logPatience is how long the end of a log may take, which is short.
	logPatience = 10 * time.Second
)

// publish computes the pod's status and has it reported if it changed.
func (s *Syncer) publish(ctx context.Context, n *notes, look *snapshot.Pod, finished, stopped bool) {
	s.messages(ctx, n, look)
	in := status.Input{
		Look: look, RuntimeName: s.cfg.RuntimeName, HostIPs: s.cfg.HostIPs, Devices: map[string][]corev1.ResourceStatus{},
		OutOfMemory: s.cfg.OutOfMemory, Finished: finished, Stopped: stopped, Pending: s.cfg.Resizes.Get(look.UID), Begun: s.cfg.Resizes.Begun(look.UID),
	}
	if sb := look.Sandbox; sb != nil {
		in.RecursiveReadOnly = s.cfg.RecursiveReadOnly(sb.Handler)
	}
	for _, c := range look.Containers() {
		if d := append(s.cfg.Devices.Health(look.UID, c.Spec.Name), s.cfg.Claims.Health(look.Pod, c.Spec)...); d != nil {
			in.Devices[c.Spec.Name] = d
		}
	}
	n.mu.Lock()
	in.Failure, in.TerminationMessages, in.Tight = n.failure, maps.Clone(n.messages), cmp.Or(n.tight, n.unresized)
	n.mu.Unlock()
	st := status.Generate(in)
	status.Ended(&look.Status, &st, s.cfg.Terminated)
	s.cfg.Status.Set(look.Pod, st)
	if !slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress }) {
		s.resized(look.Pod, finished || stopped)
	}
}

// messages reads the termination messages of containers that have ended, each once.
func (s *Syncer) messages(ctx context.Context, n *notes, look *snapshot.Pod) {
	if look.Observed == nil {
		return
	}
	n.forget(look.Observed)
	limit := min(maxMessage, maxMessages/max(len(look.Containers()), 1))
	for _, of := range look.Containers() {
		for _, c := range slices.Concat([]*container.Container{of.Latest, of.Previous}, of.Older) {
			if c == nil || c.State != container.StateExited {
				continue
			}
			n.mu.Lock()
			_, known := n.messages[c.ID]
			n.mu.Unlock()
			if known {
				continue
			}
			text := s.message(ctx, of.Spec, c, limit)
			if ctx.Err() != nil {
				return
			}
			n.mu.Lock()
			n.messages[c.ID] = text
			n.mu.Unlock()
		}
	}
}

// message is what a container that has ended has left to say, of its log if its spec says so and it has failed.
func (s *Syncer) message(ctx context.Context, spec *corev1.Container, c *container.Container, limit int) string {
	text := ""
	if c.TerminationMessageFile != "" {
		text = tail(c.TerminationMessageFile, limit)
	}
	if text != "" || c.ExitCode == 0 || spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return text
	}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	if err := s.cfg.Runtime.Logs(ctx, c.ID, container.LogOptions{Tail: fallbackLines}, &out, &out); err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	return last(out.String(), min(maxFallback, limit))
}

// forget drops what is known of containers that the engine has removed.
func (n *notes) forget(obs *observed.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	gone := func(id string) bool {
		return !slices.ContainsFunc(obs.Containers, func(c *container.Container) bool { return c.ID == id })
	}
	maps.DeleteFunc(n.killed, func(id string, _ bool) bool { return gone(id) })
	maps.DeleteFunc(n.preStopped, func(id string, _ bool) bool { return gone(id) })
	maps.DeleteFunc(n.messages, func(id, _ string) bool { return gone(id) })
}

// tail reads at most limit bytes from the end of a file. The container may have put anything there; what is no regular
// file is not read.
func tail(path string, limit int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if over := info.Size() - int64(limit); over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return ""
	}
	return string(data)
}

func last(s string, limit int) string {
	if len(s) > limit {
		return s[len(s)-limit:]
	}
	return s
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"bytes"
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
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
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
func (s *Syncer) publish(ctx context.Context, m *memory, pod *corev1.Pod, obs *observed.Pod, finished, stopped bool) {
	in := status.Input{
		Pod: pod, Observed: obs, RuntimeName: s.cfg.RuntimeName,
		HostIPs: s.cfg.HostIPs, PodIPs: s.podIPs(obs),
		Probes: map[string]status.Probe{}, Resources: map[string]corev1.ResourceRequirements{},
		Finished: finished, Stopped: stopped, Pending: s.cfg.Resizes.Get(pod.UID),
		Now: s.cfg.Clock.Now(),
	}
	for _, c := range obs.Alive() {
		v := s.cfg.Probes.Verdict(pod.UID, c.ID)
		if spec, _ := podspec.Find(pod, c.Name); spec != nil && !s.cfg.Probes.Known(pod.UID, c.ID) {
			// The container is not probed yet, so nothing is known.
			v.Started = v.Started && spec.StartupProbe == nil
			v.Ready = v.Ready && spec.ReadinessProbe == nil
		}
		in.Probes[c.ID] = status.Probe{Started: v.Started, Ready: v.Ready}
	}
	for _, p := range s.pendingResizes(pod, obs) {
		in.Resizing = true
		if old := podspec.Status(&pod.Status, p.container.Name); old != nil && old.Resources != nil {
			in.Resources[p.container.ID] = *old.Resources
		}
	}
	s.messages(ctx, m, pod, obs)
	m.mu.Lock()
	in.Failure, in.Waiting, in.TerminationMessages = m.failure, maps.Clone(m.waiting), maps.Clone(m.messages)
	m.mu.Unlock()
	st := status.Generate(in)
	status.Ended(&pod.Status, &st, s.cfg.Terminated)
	s.cfg.Status.Set(pod, st)
}

// messages reads the termination messages of containers that have ended, each once.
func (s *Syncer) messages(ctx context.Context, m *memory, pod *corev1.Pod, obs *observed.Pod) {
	if obs == nil {
		return
	}
	m.forget(obs)
	limit := min(maxMessage, maxMessages/max(len(pod.Spec.Containers)+len(pod.Spec.InitContainers), 1))
	for _, c := range obs.Containers {
		m.mu.Lock()
		_, known := m.messages[c.ID]
		m.mu.Unlock()
		spec, _ := podspec.Find(pod, c.Name)
		if known || spec == nil || c.State != container.StateExited {
			continue
		}
		text := ""
		if c.TerminationMessageFile != "" {
			text = tail(c.TerminationMessageFile, limit)
		}
		if text == "" && c.ExitCode != 0 && spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			var out bytes.Buffer
			lctx, cancel := context.WithTimeout(ctx, logPatience)
			err := s.cfg.Runtime.Logs(lctx, c.ID, container.LogOptions{Tail: fallbackLines}, &out, &out)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if text = last(out.String(), min(maxFallback, limit)); err != nil {
				text = fmt.Sprintf("Error on reading termination message from logs: %v", err)
			}
		}
		m.mu.Lock()
		m.messages[c.ID] = text
		m.mu.Unlock()
	}
}

// forget drops what is known of containers that the engine has removed.
func (m *memory) forget(obs *observed.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := func(id string) bool {
		return !slices.ContainsFunc(obs.Containers, func(c *container.Container) bool { return c.ID == id })
	}
	maps.DeleteFunc(m.killed, func(id string, _ bool) bool { return gone(id) })
	maps.DeleteFunc(m.preStopped, func(id string, _ bool) bool { return gone(id) })
	maps.DeleteFunc(m.messages, func(id, _ string) bool { return gone(id) })
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

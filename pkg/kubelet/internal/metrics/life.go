// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// Life returns l with its steps timed. phase is that of a pod as the kubelet last told it: a pod has started when it is Running,
// unless an earlier kubelet started it.
func (m *Metrics) Life(l podworker.Life, phase func(*corev1.Pod) corev1.PodPhase) podworker.Life {
	return &life{Life: l, m: m, phase: phase, pods: map[types.UID]*start{}}
}

type life struct {
	podworker.Life
	m     *Metrics
	phase func(*corev1.Pod) corev1.PodPhase

	mu   sync.Mutex // guards pods
	pods map[types.UID]*start
}

// start is how a pod came to run; its worker alone uses it.
type start struct {
	seen    time.Time
	pod     *corev1.Pod // as last synced
	running bool
}

func (l *life) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	s, operation := l.begin(pod)
	began := l.m.clock.Now()
	result, err := l.Life.Sync(ctx, pod)
	l.m.workerDuration.WithLabelValues(operation).Observe(l.m.clock.Since(began).Seconds())
	if !s.running && l.phase(pod) == corev1.PodRunning {
		s.running = true
		l.m.podStart.Observe(l.m.clock.Since(s.seen).Seconds())
	}
	return result, err
}

// begin says what a sync is: the first, one of a changed pod, or another look at it.
func (l *life) begin(pod *corev1.Pod) (s *start, operation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.pods[pod.UID]
	switch {
	case s == nil:
		s = &start{seen: l.m.clock.Now(), running: pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending}
		l.pods[pod.UID] = s
		operation = "create"
	case s.pod != pod:
		operation = "update"
	default:
		operation = "sync"
	}
	s.pod = pod
	return s, operation
}

func (l *life) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	began := l.m.clock.Now()
	err := l.Life.Terminate(ctx, pod, grace)
	l.m.workerDuration.WithLabelValues("kill").Observe(l.m.clock.Since(began).Seconds())
	return err
}

func (l *life) Forget(pod *corev1.Pod) {
	l.mu.Lock()
	delete(l.pods, pod.UID)
	l.mu.Unlock()
	l.Life.Forget(pod)
}

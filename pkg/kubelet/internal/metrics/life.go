// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// Life returns l with its steps timed. phase is that of a pod as the kubelet last told it: a pod has started when it is Running,
// unless an earlier kubelet started it.
func (m *Metrics) Life(l podworker.Life, phase func(*corev1.Pod) corev1.PodPhase) podworker.Life {
	return &life{Life: l, m: m, phase: phase}
}

type life struct {
	podworker.Life
	m     *Metrics
	phase func(*corev1.Pod) corev1.PodPhase
}

// starts are those of the pods that the kubelet works on. Safe for concurrent use.
type starts struct {
	mu  sync.Mutex // guards all and seen, and what a start has of pulls
	all map[types.UID]*start
	// seen is when those were that have not been synced yet.
	seen map[types.UID]time.Time
}

// start is how a pod came to run; its worker alone uses what is not of pulls.
type start struct {
	seen    time.Time
	pod     *corev1.Pod // as last synced
	running bool
	// told: nothing more is to be told of how long it took since the pod was created.
	told bool
	// pulling is when its first pull began, pulled when the last one that succeeded was over.
	pulling, pulled time.Time
}

// pulls is how long the pod had to wait for images.
func (s *starts) pulls(of *start) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.pulled.IsZero() {
		return 0
	}
	return of.pulled.Sub(of.pulling)
}

func (l *life) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	s, operation := l.begin(pod)
	l.observe(s, pod)
	began := l.m.clock.Now()
	result, err := l.Life.Sync(ctx, pod)
	l.m.workerDuration.WithLabelValues(operation).Observe(l.m.clock.Since(began).Seconds())
	if !s.running && l.phase(pod) == corev1.PodRunning {
		s.running = true
		l.m.podStart.Observe(l.m.clock.Since(s.seen).Seconds())
	}
	return result, err
}

// Seen notes when a pod that a worker gets now was first told of.
func (m *Metrics) Seen(pod types.UID, at time.Time) {
	m.starts.mu.Lock()
	defer m.starts.mu.Unlock()
	m.starts.seen[pod] = at
}

// begin says what a sync is: the first, one of a changed pod, or another look at it.
func (l *life) begin(pod *corev1.Pod) (s *start, operation string) {
	l.m.starts.mu.Lock()
	defer l.m.starts.mu.Unlock()
	s = l.m.starts.all[pod.UID]
	switch {
	case s == nil:
		seen, is := l.m.starts.seen[pod.UID]
		if is {
			l.m.workerStart.Observe(l.m.clock.Since(seen).Seconds())
			delete(l.m.starts.seen, pod.UID)
		} else {
			seen = l.m.clock.Now()
		}
		s = &start{seen: seen, running: pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending, told: pod.Status.StartTime != nil}
		l.m.starts.all[pod.UID] = s
		operation = "create"
		l.m.containersPerPod.Observe(float64(len(pod.Spec.Containers)))
		l.m.resourceLevels.WithLabelValues(resourceLevel(pod), strings.ToLower(string(qos.Of(pod)))).Inc()
	case s.pod != pod:
		operation = "update"
	default:
		operation = "sync"
	}
	s.pod = pod
	return s, operation
}

// resourceLevel is where a pod says what it asks for, in upstream's words.
func resourceLevel(pod *corev1.Pod) string {
	of := slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return len(c.Resources.Requests)+len(c.Resources.Limits) > 0
	})
	switch whole := resource.IsPodLevelResourcesSet(pod); {
	case whole && of:
		return "pod_and_container_level"
	case whole:
		return "pod_level"
	case of:
		return "container_level"
	}
	return ""
}

// observe tells how long a pod took to start since it was created, when the API server says that all its containers run: with the time
// that images took, and, as upstream's objective for the start of pods has it, without. One that an earlier kubelet began to start is
// not told (https://github.com/kubernetes/community/blob/master/sig-scalability/slos/pod_startup_latency.md).
func (l *life) observe(s *start, pod *corev1.Pod) {
	if s.told || !allRun(pod) {
		return
	}
	s.told = true
	took := l.m.clock.Since(pod.CreationTimestamp.Time)
	l.m.podStartTotal.Observe(took.Seconds())
	objective := (took - l.m.starts.pulls(s)).Seconds()
	l.m.podStartSLI.Observe(objective)
	if !pod.Spec.HostNetwork {
		l.m.firstSeen.Do(func() { l.m.firstNetworkPod.Set(objective) })
	}
}

func allRun(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running == nil
	})
}

func (l *life) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	began := l.m.clock.Now()
	err := l.Life.Terminate(ctx, pod, grace)
	l.m.workerDuration.WithLabelValues("kill").Observe(l.m.clock.Since(began).Seconds())
	return err
}

func (l *life) Forget(pod *corev1.Pod) {
	l.m.starts.mu.Lock()
	delete(l.m.starts.all, pod.UID)
	delete(l.m.starts.seen, pod.UID)
	l.m.starts.mu.Unlock()
	l.Life.Forget(pod)
}

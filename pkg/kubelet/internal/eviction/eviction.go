// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

const (
	defaultInterval = 10 * time.Second
	// measurePatience bounds the measurement of one pod, measuring is how many are measured at once.
	measurePatience = 10 * time.Second
	measuring       = 4
	// callPatience bounds what else is asked of the node. Removing many images takes long.
	callPatience, reclaimPatience = 10 * time.Second, 2 * time.Minute
	// cleanupPatience is how long the next decision waits for what an ended pod gives back; looked at each second.
	cleanupPatience = 30 * time.Second
	// HardGrace is what pods get when they must go at once.
	HardGrace = time.Second
)

// Node is the machine. All of its methods return when ctx ends.
type Node interface {
	// Observe tells how much there is of everything that it can tell of.
	Observe(ctx context.Context) (Observations, error)
	// Dedicated says whether images and containers are on another file system than logs and volumes.
	Dedicated(ctx context.Context) bool
	// RemoveDeadContainers and RemoveUnusedImages free what nobody runs.
	RemoveDeadContainers(ctx context.Context) error
	RemoveUnusedImages(ctx context.Context) error
}

// Eviction is why a pod is ended.
type Eviction struct {
	Message string
	// Signal is what the node ran out of, or which limit the pod has exceeded.
	Signal Signal
	// Observed is when the node was looked at; zero if it was the pod.
	Observed time.Time
	// Annotations of the event.
	Annotations map[string]string
	Grace       time.Duration
	// Disrupted: it is not the pod's fault, which its condition DisruptionTarget tells (KEP-3329).
	Disrupted bool
}

// Scope is what to measure of a pod's local storage; neither is free.
type Scope struct{ Volumes, Containers bool }

// Pods are those of the node.
type Pods interface {
	// Active are those that run or are to run, also while they are being ended.
	Active() []*corev1.Pod
	// Usage measures memory and processes of a pod, and what else scope says. It returns when ctx ends, then with an error and
	// what was counted until then.
	Usage(ctx context.Context, pod *corev1.Pod, scope Scope) (*statsv1alpha1.PodStats, error)
	// Evict has a pod ended and does not wait for it. Once more for the same pod it only hurries.
	Evict(ctx context.Context, pod *corev1.Pod, e Eviction)
	// Stopped says whether nothing of a pod is left but what its status tells of.
	Stopped(uid types.UID) bool
}

// Config is what a Manager is made from; all fields are required but the times.
type Config struct {
	Thresholds []Threshold
	// PressureTransitionPeriod is how long a condition stays after its thresholds were last met.
	PressureTransitionPeriod time.Duration
	// MaxPodGracePeriod bounds the time that pods get to end for soft thresholds.
	MaxPodGracePeriod time.Duration
	Node              Node
	Pods              Pods
	Recorder          record.EventRecorder
	// NodeRef is what the node's events are about.
	NodeRef *corev1.ObjectReference
	Clock   clock.Clock
	// Interval is how often node and pods are looked at; 10 s if 0.
	Interval time.Duration
	// Changed is called when Conditions have.
	Changed func()
}

// Manager watches over the node.
type Manager struct {
	cfg     Config
	tracker *Tracker

	mu         sync.Mutex // guards conditions
	conditions []corev1.NodeConditionType
}

// New returns a Manager of a node without pressure.
func New(cfg Config) *Manager {
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	return &Manager{cfg: cfg, tracker: NewTracker(cfg.Thresholds, cfg.PressureTransitionPeriod)}
}

// Conditions are the kinds of pressure that the node is under, by name. Callers do not change the list.
func (m *Manager) Conditions() []corev1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions
}

// Start works until ctx ends. Limits of pods and the node's thresholds are looked after beside each other: a disk that is slow
// to measure does not keep the node from ending a pod for its memory.
func (m *Manager) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { m.every(ctx, func() { m.enforceLimits(ctx) }) })
	if len(m.cfg.Thresholds) > 0 {
		wg.Go(func() {
			m.every(ctx, func() {
				for {
					pod := m.relieve(ctx)
					if pod == nil || !m.awaitStopped(ctx, pod) {
						return
					}
				}
			})
		})
	}
	wg.Wait()
	return nil
}

// every calls f now and again until ctx ends.
func (m *Manager) every(ctx context.Context, f func()) {
	for ctx.Err() == nil {
		f()
		m.sleep(ctx, m.cfg.Interval)
	}
}

func (m *Manager) sleep(ctx context.Context, d time.Duration) {
	t := m.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C():
	}
}

// awaitStopped waits for what an ended pod gives back, and says whether it has.
func (m *Manager) awaitStopped(ctx context.Context, pod *corev1.Pod) bool {
	for end := m.cfg.Clock.Now().Add(cleanupPatience); m.cfg.Clock.Now().Before(end) && ctx.Err() == nil; {
		if m.cfg.Pods.Stopped(pod.UID) {
			return true
		}
		m.sleep(ctx, time.Second)
	}
	if ctx.Err() == nil {
		klog.FromContext(ctx).Info("Evicted pod takes long to stop", "pod", klog.KObj(pod))
	}
	return false
}

// relieve looks at the node once, and does one thing about what it is short of. It returns the pod that it has ended, if any.
func (m *Manager) relieve(ctx context.Context) *corev1.Pod {
	logger := klog.FromContext(ctx)
	observed := m.cfg.Clock.Now()
	seen, err := m.observe(ctx)
	if err != nil {
		if ctx.Err() == nil {
			logger.Error(err, "Observing the node failed")
		}
		return nil
	}
	conditions, starved := m.tracker.Observe(seen, m.cfg.Clock.Now())
	m.set(conditions)
	if len(starved) == 0 {
		return nil
	}
	t := starved[0]
	about := kinds[t.Signal]
	available := seen[t.Signal].Available
	logger.Info("Node runs short", "signal", t.Signal, "available", available.String())
	m.cfg.Recorder.Eventf(m.cfg.NodeRef, corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", about.resource)
	dedicated := false
	if about.condition == corev1.NodeDiskPressure {
		dctx, cancel := context.WithTimeout(ctx, callPatience)
		dedicated = m.cfg.Node.Dedicated(dctx)
		cancel()
		if m.reclaim(ctx, t, dedicated) {
			return nil
		}
	}
	pods := slices.DeleteFunc(m.cfg.Pods.Active(), podspec.IsCritical)
	if len(pods) == 0 {
		logger.Info("No pod can be evicted", "signal", t.Signal)
		return nil
	}
	disk := about.condition == corev1.NodeDiskPressure
	usage := m.measure(ctx, pods, func(*corev1.Pod) Scope { return Scope{Volumes: disk, Containers: disk} })
	if ctx.Err() != nil {
		return nil
	}
	rank(pods, usage, t.Signal, dedicated)
	pod := pods[0]
	text, annotations := message(pod, usage[pod.UID], t, seen)
	m.cfg.Pods.Evict(ctx, pod, Eviction{
		Message: text, Signal: t.Signal, Observed: observed, Annotations: annotations, Grace: m.grace(pod, t), Disrupted: true,
	})
	return pod
}

func (m *Manager) observe(ctx context.Context) (Observations, error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	return m.cfg.Node.Observe(ctx)
}

func (m *Manager) set(conditions []corev1.NodeConditionType) {
	m.mu.Lock()
	changed := !slices.Equal(m.conditions, conditions)
	m.conditions = conditions
	m.mu.Unlock()
	if changed {
		m.cfg.Changed()
	}
}

// reclaim frees what nobody runs, and says whether that was enough.
func (m *Manager) reclaim(ctx context.Context, t Threshold, dedicated bool) bool {
	if dedicated && (t.Signal == NodeFsAvailable || t.Signal == NodeFsInodesFree) {
		return false // neither is there
	}
	rctx, cancel := context.WithTimeout(ctx, reclaimPatience)
	defer cancel()
	if err := m.cfg.Node.RemoveDeadContainers(rctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Removing dead containers failed")
		m.cfg.Recorder.Event(m.cfg.NodeRef, corev1.EventTypeWarning, "ContainerGCFailed", err.Error())
	}
	if err := m.cfg.Node.RemoveUnusedImages(rctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Removing unused images failed")
	}
	seen, err := m.observe(ctx)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(m.cfg.Thresholds, func(t Threshold) bool { return seen.met(t, true) })
}

func (m *Manager) grace(pod *corev1.Pod, t Threshold) time.Duration {
	if t.Hard() {
		return HardGrace
	}
	grace := m.cfg.MaxPodGracePeriod
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = min(grace, time.Duration(*s)*time.Second)
	}
	return max(grace, HardGrace)
}

// measure measures pods, some at once. Who cannot be measured in time is missing.
func (m *Manager) measure(ctx context.Context, pods []*corev1.Pod, scope func(*corev1.Pod) Scope) Usage {
	usage := Usage{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, measuring)
	for _, pod := range pods {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			mctx, cancel := context.WithTimeout(ctx, measurePatience)
			defer cancel()
			u, err := m.cfg.Pods.Usage(mctx, pod, scope(pod))
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Measuring a pod failed", "pod", klog.KObj(pod), "err", err)
			}
			if u == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			usage[pod.UID] = u
		})
	}
	wg.Wait()
	return usage
}

// enforceLimits ends the pods that use more local storage than they may. What was counted until time was up is at least used.
func (m *Manager) enforceLimits(ctx context.Context) {
	pods := slices.DeleteFunc(m.cfg.Pods.Active(), func(p *corev1.Pod) bool { return Limited(p) == Scope{} || podspec.IsCritical(p) })
	if len(pods) == 0 {
		return
	}
	dctx, cancel := context.WithTimeout(ctx, callPatience)
	dedicated := m.cfg.Node.Dedicated(dctx)
	cancel()
	usage := m.measure(ctx, pods, Limited)
	for _, pod := range pods {
		u := usage[pod.UID]
		if u == nil {
			continue
		}
		if limit, text := exceeded(pod, u, dedicated); text != "" {
			m.cfg.Pods.Evict(ctx, pod, Eviction{Message: text, Signal: limit, Grace: HardGrace})
		}
	}
}

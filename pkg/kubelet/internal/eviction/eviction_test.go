// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"
)

// fakeNode is a machine that can fail and hang.
type fakeNode struct {
	mu        sync.Mutex
	seen      Observations
	fail      error
	hang      bool // Observe and reclaiming wait for the end of their context
	dedicated bool
	// frees is called by both ways of freeing.
	frees func()
	freed []string
}

func (n *fakeNode) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *fakeNode) Observe(ctx context.Context) (Observations, error) {
	n.mu.Lock()
	hang, seen, fail := n.hang, n.seen, n.fail
	n.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return seen, fail
}

func (n *fakeNode) Dedicated(context.Context) bool { return n.dedicated }

func (n *fakeNode) free(what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.freed = append(n.freed, what)
	if n.frees != nil {
		n.frees()
	}
	return errors.New("one of them stays")
}

func (n *fakeNode) RemoveDeadContainers(context.Context) error { return n.free("containers") }
func (n *fakeNode) RemoveUnusedImages(context.Context) error   { return n.free("images") }

// fakePods are pods of which some cannot be measured; the evicted stop as long as stops says.
type fakePods struct {
	mu      sync.Mutex
	pods    []*corev1.Pod
	usage   Usage
	hang    map[types.UID]bool
	evicted []string
	causes  []Eviction
	graces  []time.Duration
	scopes  map[types.UID]Scope
	stops   bool
}

func (p *fakePods) Active() []*corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pods)
}

func (p *fakePods) Usage(ctx context.Context, pod *corev1.Pod, scope Scope) (*statsv1alpha1.PodStats, error) {
	p.mu.Lock()
	if p.scopes == nil {
		p.scopes = map[types.UID]Scope{}
	}
	p.scopes[pod.UID] = scope
	hang, u := p.hang[pod.UID], p.usage[pod.UID]
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return u, ctx.Err()
	}
	if u == nil {
		return nil, errors.New("unknown")
	}
	return u, nil
}

func (p *fakePods) Evict(_ context.Context, pod *corev1.Pod, e Eviction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causes = append(p.causes, e)
	p.evicted, p.graces = append(p.evicted, pod.Name), append(p.graces, e.Grace)
	if p.stops {
		p.pods = slices.DeleteFunc(p.pods, func(q *corev1.Pod) bool { return q.UID == pod.UID })
	}
}

func (p *fakePods) Stopped(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(p.pods, func(q *corev1.Pod) bool { return q.UID == uid })
}

func (p *fakePods) gone() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.evicted)
}

// run starts a Manager in a bubble of its own time and gives it to f.
func run(t *testing.T, n *fakeNode, p *fakePods, thresholds []Threshold, f func(*Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := New(Config{
			Thresholds: thresholds, PressureTransitionPeriod: 5 * time.Minute, MaxPodGracePeriod: 20 * time.Second, Node: n, Pods: p,
			Recorder: record.NewFakeRecorder(1000), NodeRef: &corev1.ObjectReference{}, Clock: clock.RealClock{}, Changed: func() {},
		})
		var wg sync.WaitGroup
		wg.Go(func() { _ = m.Start(ctx) })
		f(m)
		cancel()
		wg.Wait()
	})
}

// told are the events until now.
func told(t *testing.T, m *Manager) (out []string) {
	t.Helper()
	recorder, ok := m.cfg.Recorder.(*record.FakeRecorder)
	if !ok {
		t.Fatalf("events go to %T", m.cfg.Recorder)
	}
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return out
}

// pass lets time go by in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var lowMemory = []Threshold{{Signal: MemoryAvailable, Value: quantity("100")}}

func TestManager_OneAtATime(t *testing.T) {
	n := &fakeNode{seen: seen(map[Signal]int64{MemoryAvailable: 50})}
	p := &fakePods{pods: []*corev1.Pod{newPod("a"), newPod("b"), newPod("c")}, usage: Usage{"a": memoryUse(1), "b": memoryUse(3), "c": memoryUse(2)}}
	run(t, n, p, lowMemory, func(m *Manager) {
		synctest.Wait()
		if diff := cmp.Diff([]string{"b"}, p.gone()); diff != "" {
			t.Fatal(diff)
		}
		if c := p.causes[0]; c.Signal != MemoryAvailable || !c.Observed.Equal(time.Now()) {
			t.Errorf("for signal %q, observed at %v", c.Signal, c.Observed)
		}
		if c := m.Conditions(); len(c) != 1 || c[0] != corev1.NodeMemoryPressure {
			t.Errorf("conditions %v", c)
		}
		pass(25 * time.Second)
		if got := p.gone(); len(got) != 1 {
			t.Errorf("another pod went before the first one has: %v", got)
		}
		p.mu.Lock()
		p.pods = p.pods[:1] // b and c have stopped
		p.mu.Unlock()
		pass(time.Second)
		if diff := cmp.Diff([]string{"b", "a"}, p.gone()); diff != "" {
			t.Error(diff)
		}
		n.set(func() { n.seen = seen(map[Signal]int64{MemoryAvailable: 100}) })
		pass(5*time.Minute + 50*time.Second)
		if c := m.Conditions(); len(c) != 0 {
			t.Errorf("conditions %v", c)
		}
	})
}

func TestManager_Grace(t *testing.T) {
	for _, tc := range []struct {
		name      string
		threshold Threshold
		own       *int64
		want      time.Duration
	}{
		{"hard", lowMemory[0], new(int64(5)), time.Second},
		{"soft", Threshold{Signal: MemoryAvailable, Value: quantity("100"), Grace: time.Minute}, new(int64(5)), 5 * time.Second},
		{"soft, bounded", Threshold{Signal: MemoryAvailable, Value: quantity("100"), Grace: time.Minute}, new(int64(600)), 20 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := &fakeNode{seen: seen(map[Signal]int64{MemoryAvailable: 50})}
			p := &fakePods{stops: true, usage: Usage{"a": memoryUse(1)}, pods: []*corev1.Pod{newPod("a", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = tc.own })}}
			run(t, n, p, []Threshold{tc.threshold}, func(*Manager) {
				pass(tc.threshold.Grace - time.Nanosecond)
				if tc.threshold.Grace > 0 && len(p.gone()) > 0 {
					t.Error("it went too early")
				}
				pass(defaultInterval)
				p.mu.Lock()
				defer p.mu.Unlock()
				if diff := cmp.Diff([]time.Duration{tc.want}, p.graces); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestManager_Critical(t *testing.T) {
	n := &fakeNode{seen: seen(map[Signal]int64{MemoryAvailable: 50})}
	p := &fakePods{stops: true, usage: Usage{}, pods: []*corev1.Pod{
		newPod("priority", priority(2_000_000_000)),
		newPod("mirror", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}),
		newPod("static", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }),
		newPod("api", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "api"} }, priority(1_999_999_999)),
	}}
	run(t, n, p, lowMemory, func(*Manager) {
		pass(time.Minute)
		if diff := cmp.Diff([]string{"api"}, p.gone()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestManager_Disk: what nobody runs goes first, and no pod if that is enough, least reclaim included.
func TestManager_Disk(t *testing.T) {
	reclaim := quantity("50")
	full := Threshold{Signal: ImageFsAvailable, Value: quantity("100"), MinReclaim: &reclaim}
	for _, tc := range []struct {
		name      string
		threshold Threshold
		dedicated bool
		frees     int64
		freed     []string
		evicted   []string
	}{
		{"enough", full, false, 150, []string{"containers", "images"}, nil},
		{"less than the least", full, false, 149, []string{"containers", "images"}, []string{"a"}},
		{"images are on another disk", Threshold{Signal: NodeFsAvailable, Value: quantity("100")}, true, 150, nil, []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := &fakeNode{seen: seen(map[Signal]int64{tc.threshold.Signal: 50}), dedicated: tc.dedicated}
			n.frees = func() { n.seen = seen(map[Signal]int64{tc.threshold.Signal: tc.frees}) }
			p := &fakePods{usage: Usage{"a": diskUse(1, 1, 1)}, pods: []*corev1.Pod{newPod("a")}}
			run(t, n, p, []Threshold{tc.threshold}, func(m *Manager) {
				synctest.Wait()
				n.mu.Lock()
				defer n.mu.Unlock()
				const failed = "Warning ContainerGCFailed one of them stays"
				if told := told(t, m); slices.Contains(told, failed) != (tc.freed != nil) {
					t.Errorf("told %q", told)
				}
				if diff := cmp.Diff(tc.freed, n.freed); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(tc.evicted, p.gone()); diff != "" {
					t.Error(diff)
				}
				if s := p.scopes["a"]; tc.evicted != nil && s != (Scope{Volumes: true, Containers: true}) {
					t.Errorf("measured: %+v", s)
				}
			})
		})
	}
}

// TestManager_Failures: a node that does not tell is not short of anything, and a pod that cannot be measured holds up no other.
func TestManager_Failures(t *testing.T) {
	n := &fakeNode{fail: errors.New("no proc")}
	p := &fakePods{
		stops: true, hang: map[types.UID]bool{"stuck": true, "large": true},
		pods:  []*corev1.Pod{newPod("stuck", emptyDir("v", "10")), newPod("large", emptyDir("v", "10")), newPod("over", emptyDir("v", "10")), newPod("none")},
		usage: Usage{"over": diskUse(0, 0, 11), "large": diskUse(0, 0, 11), "none": memoryUse(1)},
	}
	run(t, n, p, lowMemory, func(*Manager) {
		pass(measurePatience - time.Nanosecond)
		if got := p.gone(); len(got) > 0 {
			t.Errorf("evicted while others are measured: %v", got)
		}
		pass(time.Second)
		if diff := cmp.Diff([]string{"large", "over"}, p.gone()); diff != "" {
			t.Error(diff)
		}
		n.set(func() { n.hang = true })
		pass(time.Minute)
		n.set(func() { n.hang, n.fail, n.seen = false, nil, seen(map[Signal]int64{MemoryAvailable: 50}) })
		p.mu.Lock()
		p.hang = map[types.UID]bool{}
		p.mu.Unlock()
		pass(time.Minute)
		if got := p.gone(); len(got) != 4 {
			t.Errorf("evicted: %v", got)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if s := p.scopes["none"]; s != (Scope{}) {
			t.Errorf("a pod without limits was measured: %+v", s)
		}
	})
}

// TestManager_Stop: it ends although everything hangs.
func TestManager_Stop(t *testing.T) {
	n := &fakeNode{hang: true}
	p := &fakePods{hang: map[types.UID]bool{"a": true}, pods: []*corev1.Pod{newPod("a", emptyDir("v", "10"))}}
	run(t, n, p, lowMemory, func(*Manager) { pass(time.Second) })
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeshutdown

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

func TestPeriods(t *testing.T) {
	second := func(n int64) time.Duration { return time.Duration(n) * time.Second }
	for _, test := range []struct {
		name            string
		total, critical time.Duration
		byPriority      []kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority
		want            []Period
	}{
		{name: "nothing"},
		{name: "all the same", total: second(30), want: []Period{{0, second(30)}, {podspec.CriticalPriority, 0}}},
		{name: "critical ones last", total: second(30), critical: second(10), want: []Period{{0, second(20)}, {podspec.CriticalPriority, second(10)}}},
		{name: "by priority", byPriority: []kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority{{Priority: 100, ShutdownGracePeriodSeconds: 5}, {Priority: 0, ShutdownGracePeriodSeconds: 60}},
			want: []Period{{0, second(60)}, {100, second(5)}}},
	} {
		if diff := cmp.Diff(test.want, Periods(test.total, test.critical, test.byPriority)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestPlace(t *testing.T) {
	periods := []Period{{Priority: 0}, {Priority: 100}, {Priority: 2000}}
	for priority, want := range map[int32]int{-5: 0, 0: 0, 99: 0, 100: 1, 1999: 1, 2000: 2, podspec.CriticalPriority: 2} {
		if got := place(periods, &corev1.Pod{Spec: corev1.PodSpec{Priority: &priority}}); got != want {
			t.Errorf("%d: %d, want %d", priority, got, want)
		}
	}
	if got := place(periods, &corev1.Pod{}); got != 0 {
		t.Errorf("no priority: %d", got)
	}
}

// fakePods end after their lag once they are told to.
type fakePods struct {
	mu    sync.Mutex
	began time.Time
	pods  []*corev1.Pod
	lags  map[types.UID]time.Duration
	ended map[types.UID]time.Time
	log   []string
	wake  func() // called at each End
}

func (f *fakePods) add(name string, priority int32, own int64, lag time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Priority: &priority}}
	if own >= 0 {
		p.Spec.TerminationGracePeriodSeconds = &own
	}
	f.pods = append(f.pods, p)
	f.lags[p.UID] = lag
}

func (f *fakePods) Active() []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range f.pods {
		if !f.stopped(p.UID) {
			out = append(out, p)
		}
	}
	return out
}

func (f *fakePods) End(_ context.Context, pod *corev1.Pod, grace time.Duration) {
	f.mu.Lock()
	f.log = append(f.log, fmt.Sprintf("%v %s %v", time.Since(f.began).Truncate(time.Second), pod.Name, grace))
	f.ended[pod.UID] = time.Now()
	wake := f.wake
	f.mu.Unlock()
	if wake != nil {
		wake()
	}
}

func (f *fakePods) stopped(uid types.UID) bool {
	at, is := f.ended[uid]
	return is && time.Since(at) >= f.lags[uid]
}

func (f *fakePods) Stopped(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped(uid)
}

func (f *fakePods) said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log
}

type world struct {
	*Manager
	logind *Fake
	pods   *fakePods
	events *record.FakeRecorder
	stop   func()

	mu      sync.Mutex // guards reports
	reports [][2]time.Time
}

func (w *world) report(began, ended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, [2]time.Time{began, ended})
}

// start runs a Manager in a bubble, where time passes when all wait.
func start(t *testing.T, logind *Fake, pods *fakePods) *world {
	t.Helper()
	w := &world{logind: logind, pods: pods, events: record.NewFakeRecorder(10)}
	w.Manager = New(Config{
		Periods: []Period{{0, 20 * time.Second}, {100, 10 * time.Second}}, Connect: logind.Connect, Pods: pods,
		Changed: func() {}, Report: w.report, Recorder: w.events, NodeRef: &corev1.ObjectReference{}, Clock: clock.RealClock{},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Start(ctx) }()
	w.stop = func() { cancel(); <-done }
	<-time.After(10 * time.Second) // in a bubble: until it waits for nothing but a shutdown
	return w
}

func newPods() *fakePods {
	return &fakePods{lags: map[types.UID]time.Duration{}, ended: map[types.UID]time.Time{}}
}

func (w *world) shutdown() {
	w.pods.mu.Lock()
	w.pods.began = time.Now()
	w.pods.mu.Unlock()
	w.logind.Shutdown(true)
	synctest.Wait()
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.add("slow", 0, 60, 5*time.Second)
		pods.add("quick", 0, 3, time.Second)
		pods.add("late", 100, 60, time.Minute)
		pods.add("unset", 2000, -1, 0)
		w := start(t, NewFake(5*time.Second), pods)
		if w.logind.Locks() != 1 || w.Status() != nil {
			t.Fatalf("%d locks, status %v", w.logind.Locks(), w.Status())
		}
		if d, _ := (&fakeConn{w.logind}).Delay(t.Context()); d != 30*time.Second {
			t.Errorf("logind waits for %v", d)
		}
		pods.wake = func() { pods.add("just taken", 0, 60, 0); pods.wake = nil }
		w.shutdown()
		if err := w.Status(); err == nil || err.Error() != "node is shutting down" {
			t.Errorf("status %v", err)
		}
		<-time.After(14 * time.Second)
		if w.logind.Locks() != 1 {
			t.Error("the shutdown goes on before its pods have ended")
		}
		<-time.After(2 * time.Second)
		if w.logind.Locks() != 0 {
			t.Error("the shutdown is held up for longer than its pods may take")
		}
		want := []string{"0s slow 20s", "0s quick 3s", "5s late 10s", "5s unset 10s", "5s just taken 10s"}
		if diff := cmp.Diff(want, pods.said()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := <-w.events.Events; got != "Normal Shutdown Shutdown manager detected shutdown event" {
			t.Errorf("event %q", got)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if diff := cmp.Diff([][2]time.Time{{pods.began, {}}, {pods.began, pods.began.Add(15 * time.Second)}}, w.reports); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		w.stop()
	})
}

// A shutdown that is cancelled ends no more pods, and the next one is held up again.
func TestShutdown_Cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.add("first", 0, 60, time.Minute)
		pods.add("second", 100, 60, 0)
		w := start(t, NewFake(time.Minute), pods)
		w.shutdown()
		w.logind.Shutdown(false)
		synctest.Wait()
		if w.Status() != nil || w.logind.Locks() != 1 {
			t.Errorf("status %v, %d locks", w.Status(), w.logind.Locks())
		}
		<-time.After(time.Minute)
		if diff := cmp.Diff([]string{"0s first 20s"}, pods.said()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		<-w.events.Events
		if got := <-w.events.Events; got != "Normal Shutdown Shutdown manager detected shutdown cancellation" {
			t.Errorf("event %q", got)
		}
		w.shutdown()
		<-time.After(time.Second)
		if got := pods.said(); !strings.HasSuffix(got[len(got)-1], "second 10s") || w.logind.Locks() != 0 {
			t.Errorf("the next one: %v, %d locks", got, w.logind.Locks())
		}
		w.stop()
	})
}

// What says that a shutdown begins is a hint: anybody may send it.
func TestShutdown_Hint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.add("p", 0, 60, 0)
		w := start(t, NewFake(time.Minute), pods)
		w.logind.Hint()
		synctest.Wait()
		if w.Status() != nil || len(pods.said()) > 0 {
			t.Errorf("status %v, ended %v", w.Status(), pods.said())
		}
		w.stop()
	})
}

// A kubelet that comes while a shutdown is under way ends the pods without holding it up.
func TestShutdown_UnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.add("p", 0, 60, 0)
		logind := NewFake(time.Minute)
		logind.Shutdown(true)
		w := start(t, logind, pods)
		if w.Status() == nil || len(pods.said()) != 1 {
			t.Errorf("status %v, ended %v", w.Status(), pods.said())
		}
		w.stop()
	})
}

// The connection goes first when a machine goes down: pods end all the same, and the lock stays until then.
func TestShutdown_Lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.add("first", 0, 60, 5*time.Second)
		pods.add("second", 100, 60, 0)
		w := start(t, NewFake(time.Minute), pods)
		w.shutdown()
		w.logind.Refuse("Connect", errors.New("no bus"))
		w.logind.Break()
		<-time.After(4 * time.Second)
		if w.logind.Locks() != 1 {
			t.Error("the shutdown goes on")
		}
		<-time.After(2 * time.Second)
		if got := pods.said(); len(got) != 2 || w.logind.Locks() != 0 || w.Status() == nil {
			t.Errorf("ended %v, %d locks, status %v", got, w.logind.Locks(), w.Status())
		}
		w.stop()
	})
}

// Whatever of logind fails, the node runs on, and a shutdown is held up as soon as it works again.
func TestStart_Fails(t *testing.T) {
	for _, method := range []string{"Connect", "Watch", "Inhibit", "Preparing"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logind := NewFake(time.Minute)
				logind.Refuse(method, errors.New("boom"))
				w := start(t, logind, newPods())
				<-time.After(10 * time.Minute)
				if w.Status() != nil || logind.Locks() != 0 {
					t.Errorf("status %v, %d locks", w.Status(), logind.Locks())
				}
				if n := logind.Connects(); n < 5 || n > 25 {
					t.Errorf("it was tried %d times in ten minutes", n)
				}
				logind.Refuse(method, nil)
				<-time.After(2 * time.Minute)
				if logind.Locks() != 1 {
					t.Errorf("%d locks", logind.Locks())
				}
				w.stop()
				if logind.Locks() != 0 {
					t.Error("the lock stays")
				}
			})
		})
	}
}

// A logind that does not wait longer is no reason to wait for nothing.
func TestStart_Stubborn(t *testing.T) {
	for name, change := range map[string]func(*Fake){
		"does not": (*Fake).Stubborn, "refuses": func(f *Fake) { f.Refuse("Extend", errors.New("read-only file system")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logind := NewFake(time.Second)
				change(logind)
				w := start(t, logind, newPods())
				if logind.Locks() != 1 {
					t.Errorf("%d locks", logind.Locks())
				}
				w.stop()
			})
		})
	}
}

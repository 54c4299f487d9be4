// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// script is a Life that records what is called and does what a test says.
type script struct {
	mu        sync.Mutex
	log       []string
	logged    chan struct{}
	sync      func(ctx context.Context, pod *corev1.Pod) (Result, error)
	terminate func(ctx context.Context, pod *corev1.Pod, grace time.Duration) error
}

func newScript() *script { return &script{logged: make(chan struct{}, 100)} }

func (s *script) note(text string) {
	s.mu.Lock()
	s.log = append(s.log, text)
	s.mu.Unlock()
	s.logged <- struct{}{}
}

// until waits for the log to be n long and returns it.
func (s *script) until(t *testing.T, n int) []string {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		log := append([]string(nil), s.log...)
		s.mu.Unlock()
		if len(log) >= n {
			return log
		}
		select {
		case <-s.logged:
		case <-deadline:
			t.Fatalf("only %v happened, waiting for %d steps", log, n)
		}
	}
}

func (s *script) Sync(ctx context.Context, pod *corev1.Pod) (Result, error) {
	s.note("sync " + pod.Name)
	if s.sync != nil {
		return s.sync(ctx, pod)
	}
	return Result{}, nil
}

func (s *script) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	s.note("terminate " + pod.Name + " " + grace.String())
	if s.terminate != nil {
		return s.terminate(ctx, pod, grace)
	}
	return nil
}

func (s *script) Cleanup(_ context.Context, pod *corev1.Pod, deleted bool) error {
	if deleted {
		s.note("clean up deleted " + pod.Name)
	} else {
		s.note("clean up " + pod.Name)
	}
	return nil
}

func (s *script) Forget(pod *corev1.Pod) { s.note("forget " + pod.Name) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(20))}}
}

func deleted(p *corev1.Pod, grace int64) *corev1.Pod {
	q := p.DeepCopy()
	q.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	q.DeletionGracePeriodSeconds = &grace
	return q
}

func start(t *testing.T, s *script) *Workers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := New(ctx, s, clock.RealClock{}, time.Hour)
	t.Cleanup(func() { cancel(); w.Wait() })
	return w
}

func TestDeletion(t *testing.T) {
	s := newScript()
	w := start(t, s)
	w.Update(pod("a"))
	s.until(t, 1)
	w.Update(deleted(pod("a"), 5))
	s.until(t, 3)
	w.Remove(deleted(pod("a"), 5))
	want := []string{"sync a", "terminate a 5s", "clean up deleted a", "forget a"}
	if diff := cmp.Diff(want, s.until(t, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := w.Stage("a"); ok {
		t.Error("the pod is still known")
	}
}

func TestEndsByItself(t *testing.T) {
	s := newScript()
	s.sync = func(context.Context, *corev1.Pod) (Result, error) { return Result{Terminate: true}, nil }
	w := start(t, s)
	w.Update(pod("a"))
	s.until(t, 3)
	w.Update(deleted(pod("a"), 5))
	want := []string{"sync a", "terminate a 20s", "clean up a", "clean up deleted a"}
	if diff := cmp.Diff(want, s.until(t, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRemovedWithoutDeletion(t *testing.T) {
	s := newScript()
	w := start(t, s)
	w.Update(pod("a"))
	s.until(t, 1)
	w.Remove(pod("a"))
	want := []string{"sync a", "terminate a 20s", "clean up deleted a", "forget a"}
	if diff := cmp.Diff(want, s.until(t, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestComesBack: what ended of a pod that runs again stays known, but not if it is to run once only.
func TestComesBack(t *testing.T) {
	for policy, cleanup := range map[corev1.RestartPolicy]string{corev1.RestartPolicyAlways: "clean up a", corev1.RestartPolicyNever: "clean up deleted a"} {
		s, release := newScript(), make(chan struct{})
		s.terminate = func(context.Context, *corev1.Pod, time.Duration) error { <-release; return nil }
		w := start(t, s)
		p := pod("a")
		p.Spec.RestartPolicy = policy
		w.Update(p)
		s.until(t, 1)
		w.Update(deleted(p, 20))
		w.Remove(deleted(p, 20))
		w.Update(p)
		close(release)
		want := []string{"sync a", "terminate a 20s", cleanup, "forget a"}
		if diff := cmp.Diff(want, s.until(t, 4)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", policy, diff)
		}
	}
}

func TestDeletionInterruptsSync(t *testing.T) {
	s := newScript()
	s.sync = func(ctx context.Context, _ *corev1.Pod) (Result, error) {
		<-ctx.Done() // as a pull or a hook does
		return Result{}, ctx.Err()
	}
	w := start(t, s)
	w.Update(pod("a"))
	s.until(t, 1)
	w.Update(deleted(pod("a"), 5))
	want := []string{"sync a", "terminate a 5s", "clean up deleted a"}
	if diff := cmp.Diff(want, s.until(t, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestShorterGrace(t *testing.T) {
	s := newScript()
	s.terminate = func(ctx context.Context, _ *corev1.Pod, grace time.Duration) error {
		if grace > time.Second {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	w := start(t, s)
	w.Update(pod("a"))
	s.until(t, 1)
	w.Update(deleted(pod("a"), 30))
	s.until(t, 2)
	w.Update(deleted(pod("a"), 40)) // longer does not count
	w.Update(deleted(pod("a"), 0))
	want := []string{"sync a", "terminate a 30s", "terminate a 1s", "clean up deleted a"}
	if diff := cmp.Diff(want, s.until(t, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBlockedPodDoesNotDelayOthers(t *testing.T) {
	s := newScript()
	hold := make(chan struct{})
	s.sync = func(ctx context.Context, p *corev1.Pod) (Result, error) {
		if p.Name == "a" {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		return Result{}, nil
	}
	w := start(t, s)
	w.Update(pod("a"))
	s.until(t, 1)
	w.Update(pod("b"))
	if diff := cmp.Diff([]string{"sync a", "sync b"}, s.until(t, 2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Wakes while a step runs are one more step, not several.
	w.Wake("a")
	w.Wake("a")
	close(hold)
	if got := s.until(t, 3); got[2] != "sync a" {
		t.Errorf("steps %v", got)
	}
}

func TestErrorsAreRetried(t *testing.T) {
	s := newScript()
	var once sync.Once
	s.terminate = func(context.Context, *corev1.Pod, time.Duration) (err error) {
		once.Do(func() { err = errors.New("engine away") })
		return err
	}
	w := start(t, s)
	w.Update(deleted(pod("a"), 2))
	want := []string{"terminate a 2s", "terminate a 2s", "clean up deleted a"}
	if diff := cmp.Diff(want, s.until(t, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTerminate: a pod that somebody wants to end ends, and sooner if somebody else is in a hurry.
func TestTerminate(t *testing.T) {
	s := newScript()
	began := make(chan struct{}, 2)
	s.terminate = func(ctx context.Context, _ *corev1.Pod, grace time.Duration) error {
		began <- struct{}{}
		if grace > time.Second {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	w := start(t, s)
	w.Terminate("a", time.Second) // not known
	w.Update(pod("a"))
	s.until(t, 1)
	w.Terminate("a", 5*time.Second)
	<-began
	w.Terminate("a", 9*time.Second) // it has less time already
	w.Terminate("a", time.Second)
	want := []string{"sync a", "terminate a 5s", "terminate a 1s", "clean up a"}
	if got := s.until(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

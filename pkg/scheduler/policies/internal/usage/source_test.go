// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// answer is what is measured, sent to who asks.
type answer struct {
	figures *figures
	err     error
}

// bench is a source whose questions are answered by the test.
type bench struct {
	*source
	clock     *clocktesting.FakePassiveClock
	asked     chan struct{}
	answers   chan answer
	activated chan []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{clock: clocktesting.NewFakePassiveClock(noon), asked: make(chan struct{}, 10), answers: make(chan answer), activated: make(chan []string, 10)}
	b.source = &source{clock: b.clock, waiting: map[string]*corev1.Pod{}}
	b.ctx, b.stop = context.WithCancel(t.Context())
	b.measure = func(ctx context.Context) (*figures, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("there is no deadline")
		}
		b.asked <- struct{}{}
		select {
		case a := <-b.answers:
			return a.figures, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.activate = func(_ klog.Logger, pods map[string]*corev1.Pod) {
		if !b.mu.TryLock() {
			t.Error("pods are activated under the lock, which the queue takes in the other order")
		} else {
			b.mu.Unlock()
		}
		var names []string
		for _, p := range pods {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		b.activated <- names
	}
	t.Cleanup(b.close)
	return b
}

// holds checks which pods must wait.
func (b *bench) holds(t *testing.T, want bool, names ...string) {
	t.Helper()
	for _, name := range names {
		if held := !b.await(pt.Pod(name)); held != want {
			t.Errorf("pod %s is held back: %t, want %t", name, held, want)
		}
	}
}

// releases answers who asked, and checks which pods go on.
func (b *bench) releases(t *testing.T, a answer, want ...string) {
	t.Helper()
	<-b.asked
	b.answers <- a
	if got := <-b.activated; !slices.Equal(got, want) {
		t.Errorf("pods %v go on, want %v", got, want)
	}
}

func TestSource(t *testing.T) {
	b := newBench(t)
	if b.newest != nil || len(b.asked) > 0 {
		t.Error("somebody was asked although nobody wants to know")
	}
	first, second := &figures{}, &figures{}
	b.holds(t, true, "b", "a")
	b.releases(t, answer{figures: first}, "a", "b")
	b.holds(t, false, "a", "b", "c")
	if b.latest() != first {
		t.Error("the first figures are not there")
	}

	b.clock.SetTime(noon.Add(fresh - time.Millisecond))
	b.holds(t, false, "d")
	b.clock.SetTime(noon.Add(fresh))
	if b.latest() != first { // which asks too, and does not wait
		t.Error("the old figures are gone")
	}
	b.holds(t, true, "d")
	b.releases(t, answer{figures: second}, "d")
	if b.latest() != second || len(b.asked) > 0 {
		t.Error("the second figures are not there, or were asked for twice")
	}
}

// What cannot be found out holds a pod back once, and what is known is used as long as it says something.
func TestSource_Fails(t *testing.T) {
	b := newBench(t)
	broken := answer{err: errors.New("broken")}
	b.holds(t, true, "a")
	b.releases(t, broken, "a")
	b.holds(t, false, "a", "b")
	if b.latest() != nil {
		t.Error("there are figures")
	}
	b.clock.SetTime(noon.Add(fresh))
	known := &figures{}
	b.holds(t, true, "a")
	b.releases(t, answer{figures: known}, "a")
	for _, tc := range []struct {
		after time.Duration
		want  *figures
	}{{fresh, known}, {stale, known}, {stale + fresh, nil}} {
		b.clock.SetTime(noon.Add(fresh + tc.after))
		b.holds(t, true, "a")
		b.releases(t, broken, "a")
		if got := b.latest(); got != tc.want {
			t.Errorf("%s later there are figures: %t, want %t", tc.after, got != nil, tc.want != nil)
		}
	}
}

// A scheduler that ends waits for nobody's answer, and leaves nothing behind.
func TestSource_Close(t *testing.T) {
	b := newBench(t)
	b.holds(t, true, "a")
	<-b.asked
	b.close()
	if len(b.activated) > 0 {
		t.Error("pods were activated in a scheduler that has ended")
	}
	b.holds(t, false, "b")
	b.latest()
	b.asking.Wait()
	if len(b.asked) > 0 {
		t.Error("somebody was asked after the end")
	}
}

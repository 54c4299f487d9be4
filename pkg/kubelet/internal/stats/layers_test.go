// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// engine takes its time to count, fails where it is told to, and can hang until its caller gives up.
type engine struct {
	dir string

	mu     sync.Mutex // guards the fields below
	takes  time.Duration
	used   map[string]container.DiskUsage
	fails  error
	hangs  map[string]bool
	counts map[string]int
	busy   time.Duration
}

func (e *engine) call(ctx context.Context, what string) error {
	e.mu.Lock()
	e.counts[what]++
	takes, fails, hangs := e.takes, e.fails, e.hangs[what]
	e.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	<-time.After(takes)
	e.mu.Lock()
	e.busy += takes
	e.mu.Unlock()
	return fails
}

func (e *engine) DiskUsage(ctx context.Context, id string) (container.DiskUsage, error) {
	err := e.call(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	u, ok := e.used[id]
	if err == nil && !ok {
		err = container.ErrNotFound
	}
	return u, err
}

func (e *engine) Images(ctx context.Context) ([]*container.Image, error) {
	return []*container.Image{{SizeBytes: 40}, {SizeBytes: 2}}, e.call(ctx, "images")
}

func (e *engine) ImageDir(ctx context.Context) (string, error) { return e.dir, e.call(ctx, "dir") }

// counted is how often something was counted.
func (e *engine) counted(what string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[what]
}

// layersOf starts Layers over these containers, and stops them when the test ends.
func layersOf(t *testing.T, e *engine, running func() []string) *Layers {
	t.Helper()
	e.counts, e.dir = map[string]int{}, t.TempDir()
	l := NewLayers(LayersConfig{Clock: clock.RealClock{}, Engine: e, Running: running})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return l
}

func TestLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{takes: time.Second, used: map[string]container.DiskUsage{"a": {Rootfs: 7, Log: 3}}}
		var mu sync.Mutex
		ids := []string{"a", "gone"}
		l := layersOf(t, e, func() []string { mu.Lock(); defer mu.Unlock(); return ids })
		if _, known := l.Of("a"); known || l.ImageFs() != nil || l.Written("a") != nil {
			t.Error("something is known before it was counted")
		}
		<-time.After(time.Minute)
		if got, known := l.Of("a"); !known || got.DiskUsage != e.used["a"] {
			t.Errorf("a: %+v %v", got, known)
		}
		if _, known := l.Of("gone"); known {
			t.Error("the engine does not know it, and it is told")
		}
		if fs := l.ImageFs(); fs == nil || *fs.UsedBytes != 42 || *fs.CapacityBytes == 0 || l.Dir() != e.dir {
			t.Errorf("images: %+v", fs)
		}
		if fs := l.Written("a"); fs == nil || *fs.UsedBytes != 10 || *fs.CapacityBytes == 0 {
			t.Errorf("written: %+v", fs)
		}
		// A new one is counted soon, the others not so soon.
		mu.Lock()
		ids = []string{"a", "b"}
		mu.Unlock()
		e.mu.Lock()
		e.used["a"], e.used["b"] = container.DiskUsage{Rootfs: 8}, container.DiskUsage{Rootfs: 1}
		e.mu.Unlock()
		<-time.After(layerLook + 10*time.Second)
		if got, known := l.Of("b"); !known || got.Rootfs != 1 {
			t.Errorf("b: %+v %v", got, known)
		}
		if got, _ := l.Of("a"); got.Rootfs != 7 || e.counted("a") != 1 {
			t.Errorf("a was counted again: %+v, %d times", got, e.counted("a"))
		}
		<-time.After(layerAge)
		if got, _ := l.Of("a"); got.Rootfs != 8 || e.counted("a") != 2 || e.counted("images") != 2 {
			t.Errorf("a: %+v, counted %d times, images %d times", got, e.counted("a"), e.counted("images"))
		}
		// What cannot be counted any more is told as it was.
		e.mu.Lock()
		e.fails = errors.New("no such luck")
		e.mu.Unlock()
		<-time.After(2 * layerAge)
		if got, known := l.Of("a"); !known || got.Rootfs != 8 || time.Since(got.Time) < layerAge {
			t.Errorf("a, after failures: %+v %v", got, known)
		}
		mu.Lock()
		ids = nil
		mu.Unlock()
		<-time.After(time.Minute)
		l.mu.Lock()
		left := len(l.layers)
		l.mu.Unlock()
		if _, known := l.Of("a"); known || left > 0 {
			t.Error("what has ended is still known")
		}
	})
}

// TestLayers_Cost checks that an engine that takes long to count is not kept at it, and that one container that hangs does not keep
// others from being counted.
func TestLayers_Cost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{takes: 5 * time.Second, used: map[string]container.DiskUsage{}, hangs: map[string]bool{"c3": true}}
		var ids []string
		for _, id := range []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"} {
			ids = append(ids, id)
			e.used[id] = container.DiskUsage{Rootfs: 1}
		}
		l := layersOf(t, e, func() []string { return ids })
		<-time.After(time.Hour)
		e.mu.Lock()
		busy := e.busy
		e.mu.Unlock()
		if share := busy.Seconds() / time.Hour.Seconds(); share > 0.25 {
			t.Errorf("the engine was kept busy %v of the time", share)
		}
		known := map[string]bool{}
		for _, id := range ids {
			_, known[id] = l.Of(id)
		}
		want := map[string]bool{"c3": false}
		for _, id := range ids {
			want[id] = id != "c3"
		}
		if diff := cmp.Diff(want, known); diff != "" {
			t.Errorf("known (-want +got):\n%s", diff)
		}
	})
}

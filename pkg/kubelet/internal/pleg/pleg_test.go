// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

func start(t *testing.T, r *fake.Runtime, relist time.Duration) (*PLEG, chan types.UID) {
	t.Helper()
	changed := make(chan types.UID, 1000)
	p := New(Config{Runtime: r, Relist: relist, Changed: func(u types.UID) { changed <- u }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = p.Start(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return p, changed
}

func expect(t *testing.T, changed chan types.UID, uid types.UID) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case u := <-changed:
			if u == uid {
				return
			}
		case <-deadline:
			t.Fatalf("no change of %s was told", uid)
		}
	}
}

func sandbox(t *testing.T, r *fake.Runtime, uid types.UID) *container.Sandbox {
	t.Helper()
	sb, err := r.CreateSandbox(t.Context(), container.SandboxConfig{Pod: container.Pod{UID: uid, Name: string(uid), Namespace: "ns"}})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

func TestEvents(t *testing.T) {
	r := fake.New(fake.Config{})
	p, changed := start(t, r, time.Hour)
	a := sandbox(t, r, "a")
	expect(t, changed, "a")
	// The stream breaks; what happens then is found by the next listing.
	r.BreakEvents()
	r.KillSandbox(a.ID)
	expect(t, changed, "a")
	sandbox(t, r, "b")
	expect(t, changed, "b")
	if err := p.Healthy(); err != nil {
		t.Errorf("not healthy: %v", err)
	}
}

func TestEngineAway(t *testing.T) {
	r := fake.New(fake.Config{})
	sandbox(t, r, "a")
	p, changed := start(t, r, time.Hour)
	expect(t, changed, "a")
	r.SetUnavailable(true)
	if _, err := p.Since(t.Context(), time.Now()); !errors.Is(err, container.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if p.Healthy() == nil {
		t.Error("healthy without an engine")
	}
	r.SetUnavailable(false)
	sandbox(t, r, "b")
	expect(t, changed, "b")
}

func TestSinceSharesListings(t *testing.T) {
	r := fake.New(fake.Config{})
	hold := make(chan struct{})
	var once sync.Once
	entered := make(chan struct{})
	r.Before(func(c fake.Call) error {
		if c.Op == "List" {
			once.Do(func() { close(entered); <-hold })
		}
		return nil
	})
	p := New(Config{Runtime: r})
	first := make(chan *Snapshot, 1)
	go func() {
		s, _ := p.Since(context.Background(), time.Time{})
		first <- s
	}()
	<-entered
	now := time.Now()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := p.Since(context.Background(), now)
			if err != nil || s.Began.Before(now) {
				t.Errorf("a snapshot of %v for %v: %v", s, now, err)
			}
		})
	}
	close(hold)
	wg.Wait()
	<-first
	if n := len(r.Calls("List")); n != 2 {
		t.Errorf("%d listings, want 2: one under way and one for all that waited", n)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(2, time.Minute)
		var mu sync.Mutex
		under, most := 0, 0
		var wg sync.WaitGroup
		began := time.Now()
		for range 6 {
			wg.Go(func() {
				_ = g.Do(t.Context(), func() error {
					mu.Lock()
					under++
					most = max(most, under)
					mu.Unlock()
					<-time.After(time.Second)
					mu.Lock()
					under--
					mu.Unlock()
					return nil
				})
			})
		}
		wg.Wait()
		if most != 2 || time.Since(began) != 3*time.Second {
			t.Errorf("%d at once, %s in all", most, time.Since(began))
		}
		want := errors.New("its own")
		if err := g.Do(t.Context(), func() error { return want }); !errors.Is(err, want) {
			t.Errorf("error %v", err)
		}
	})
}

func TestDo_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(1, time.Minute)
		hang := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = g.Do(t.Context(), func() error { <-hang; return nil }) })
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Do(short, func() error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("there was room: %v", err)
		}
		began := time.Now()
		if err := g.Do(t.Context(), func() error { return nil }); err != nil || time.Since(began) > 3*time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		close(hang)
		wg.Wait()
		// Who gave its slot back early gives back no other's.
		if len(g.slots) != 0 {
			t.Errorf("%d slots are taken", len(g.slots))
		}
	})
}

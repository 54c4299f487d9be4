// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package keyedmutex

import (
	"strconv"
	"sync"
	"testing"
)

// The race detector tells if two have a key at once.
func TestLock(t *testing.T) {
	t.Parallel()
	const keys, users = 4, 50
	var m Mutex
	var counts [keys]int
	var wg sync.WaitGroup
	for range users {
		for key := range keys {
			wg.Go(func() {
				defer m.Lock(strconv.Itoa(key))()
				counts[key]++
			})
		}
	}
	wg.Wait()
	for key, n := range counts {
		if n != users {
			t.Errorf("key %d was had %d times, want %d", key, n, users)
		}
	}
	if len(m.locks) != 0 {
		t.Errorf("%d keys are kept that nobody has", len(m.locks))
	}
}

// However many keys there are, none waits for another.
func TestLock_OtherKeys(t *testing.T) {
	t.Parallel()
	var m Mutex
	for i := range 1000 {
		defer m.Lock(strconv.Itoa(i))()
	}
	if len(m.locks) != 1000 {
		t.Errorf("%d keys are locked, want 1000", len(m.locks))
	}
}

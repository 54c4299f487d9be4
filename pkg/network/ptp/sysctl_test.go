// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside, rounds atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				unlock, err := lock(path, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two hold it")
				}
				rounds.Add(1)
				inside.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	if rounds.Load() != 160 {
		t.Errorf("it was held %d times, want 160", rounds.Load())
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestLock_Held(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(path, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("it can be held twice: %v", err)
	}
	unlock()
	if unlock, err = lock(path, time.Minute); err != nil {
		t.Fatal(err)
	}
	unlock()
}

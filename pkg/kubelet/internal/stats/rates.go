// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"sync"
	"time"
)

// rates turns CPU counters into CPU in use, from one reading to the next.
type rates struct {
	mu   sync.Mutex // guards last
	last map[string]reading
}

type reading struct {
	at   time.Time
	cpu  uint64
	rate *uint64
}

// minInterval is the least time over which a rate is computed; sooner the last one is repeated.
const minInterval = 5 * time.Second

func (r *rates) nanoCores(key string, cpu uint64, now time.Time) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]reading{}
	}
	old, ok := r.last[key]
	if ok && now.Sub(old.at) < minInterval {
		return old.rate
	}
	n := reading{at: now, cpu: cpu}
	if ok && cpu >= old.cpu {
		n.rate = new(uint64(float64(cpu-old.cpu) / now.Sub(old.at).Seconds()))
	}
	r.last[key] = n
	return n.rate
}

// retain drops the counters of what is gone.
func (r *rates) retain(keep map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.last {
		if !keep[k] {
			delete(r.last, k)
		}
	}
}

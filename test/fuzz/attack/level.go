// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Level is what a server holds.
type Level struct {
	Goroutines int
	HeapMB     int
}

// Level reads it from /metrics.
func (k *Kept) Level(ctx context.Context) (Level, error) {
	data, err := k.Ask(ctx, "GET", "/metrics", "")
	if err != nil {
		return Level{}, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "go_goroutines" && name != "go_memstats_heap_inuse_bytes" {
			continue
		}
		if values[name], err = strconv.ParseFloat(value, 64); err != nil {
			return Level{}, fmt.Errorf("reading metric %s: %w", name, err)
		}
	}
	if len(values) != 2 {
		return Level{}, fmt.Errorf("/metrics tells only %v", values)
	}
	return Level{Goroutines: int(values["go_goroutines"]), HeapMB: int(values["go_memstats_heap_inuse_bytes"]) >> 20}, nil
}

// Near tells whether the server holds little more than it did. Idle connections, caches that were filled for the first time
// and the last events of the watch caches remain.
func (l Level) Near(before Level) bool {
	return l.Goroutines <= before.Goroutines*11/10+100 && l.HeapMB <= before.HeapMB+250
}

// Settle waits until the server is near the level before, and returns the level it has then, or in the end.
func (k *Kept) Settle(ctx context.Context, before Level, patience time.Duration) (Level, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now, err := k.Level(ctx)
		if err != nil || now.Near(before) {
			return now, err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return now, fmt.Errorf("%v after the requests, the server holds %+v, before it was %+v", patience, now, before)
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

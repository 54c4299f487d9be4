// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package gate bounds how many calls are under way at once, and lets no slow one hold up the others. Touch it when the
// engine is asked for too much at a time, or something waits for what has nothing to do with it.
package gate

import (
	"context"
	"sync"
	"time"
)

// Gate is safe for concurrent use.
type Gate struct {
	slots    chan struct{}
	patience time.Duration
}

// New returns a Gate for n calls, at least one. A call that takes longer than patience does not count any more: whatever it
// waits for, it is not the work that the bound is there to spread.
func New(n int, patience time.Duration) *Gate {
	return &Gate{slots: make(chan struct{}, max(n, 1)), patience: patience}
}

// Do calls f as soon as there is room. It returns the error of f, or of ctx if that ends before there is room.
func (g *Gate) Do(ctx context.Context, f func() error) error {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	leave := sync.OnceFunc(func() { <-g.slots })
	defer leave()
	timer := time.AfterFunc(g.patience, leave)
	defer timer.Stop()
	return f()
}

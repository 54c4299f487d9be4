// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// Informer is one that begins when it is first needed: few pods need it, and each watch of each node costs the API server
// something. It is safe for concurrent use.
type Informer struct {
	cache.SharedIndexInformer

	what    string
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // guards begun, and that nothing begins after Stop
	begun   bool
}

// NewInformer returns one that has not begun. What it lists is named in errors.
func NewInformer(what string, i cache.SharedIndexInformer) *Informer {
	ctx, stop := context.WithCancel(context.Background())
	return &Informer{SharedIndexInformer: i, what: what, ctx: ctx, stop: stop}
}

// Await returns when all is known that was there when it began. Errors wrap plugin.ErrUnavailable.
func (i *Informer) Await(ctx context.Context) error {
	i.mu.Lock()
	if !i.begun && i.ctx.Err() == nil {
		i.begun = true
		i.running.Go(func() { i.RunWithContext(i.ctx) })
	}
	i.mu.Unlock()
	waiting, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	switch {
	case cache.WaitForCacheSync(waiting.Done(), i.HasSynced):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("failed to sync %s cache: %w: %w", i.what, plugin.ErrUnavailable, ctx.Err())
	}
	return fmt.Errorf("failed to sync %s cache: timed out waiting for the condition: %w", i.what, plugin.ErrUnavailable)
}

// Stop ends it and waits until it has.
func (i *Informer) Stop() {
	i.mu.Lock()
	i.stop()
	i.mu.Unlock()
	i.running.Wait()
}

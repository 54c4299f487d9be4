// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"

	nodes "minik8s.io/minik8s/pkg/node"
)

// errHost is what a fakeHost fails with.
var errHost = errors.New("the host is broken")

// fakeHost is a nodeHost that notes what it is asked for, with the state of the node on disk at the time, and does nothing.
type fakeHost struct {
	dir nodes.Dir

	mu    sync.Mutex     // guards the fields below
	fails map[string]int // how often something fails yet, such as "build c-2"; negative: for ever
	did   []string       // without what has failed
	tried []string
}

func (h *fakeHost) do(what string, n nodes.Node) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	what += " " + n.Name
	list, err := h.dir.List()
	if err != nil {
		return err
	}
	for _, on := range list {
		if on.Name == n.Name {
			h.tried = append(h.tried, what+" "+string(on.State))
		}
	}
	if h.fails[what] != 0 {
		h.fails[what]--
		return errHost
	}
	h.did = append(h.did, what)
	return nil
}

// done is what was done, sorted.
func (h *fakeHost) done() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.did))
}

func (h *fakeHost) build(n nodes.Node) (func(context.Context) error, error) {
	if err := h.do("build", n); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
}

func (h *fakeHost) cutOff(_ context.Context, n nodes.Node) error { return h.do("cutOff", n) }

func (h *fakeHost) clear(_ context.Context, n nodes.Node) error { return h.do("clear", n) }

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

// record is what is known of one pod. PLEG.mu guards it.
type record struct {
	pod   container.Pod
	items map[string]*item // by id
	// view is made of the items that were inspected, err says of which of the others the engine tells nothing.
	view *observed.Pod
	err  error
	// lost is the mark of a creation whose answer did not come, 0 if there is none: only a listing tells what it made.
	lost uint64
	// inspecting: Start has it inspected. turn has room while nobody does.
	inspecting bool
	turn       chan struct{}
	waiting    int
}

// item is a sandbox or a container. It is to be inspected while marked is above seen.
type item struct {
	sandbox      *container.Sandbox
	container    *container.Container
	err          error
	marked, seen uint64
	// listed: a listing had it. Events may come late, and tell of what is gone.
	listed bool
}

func (i *item) state() container.State {
	switch {
	case i.sandbox != nil:
		return i.sandbox.State
	case i.container != nil:
		return i.container.State
	}
	return container.StateUnknown
}

// exists says whether the engine has something of the pod for sure. The caller holds mu.
func (r *record) exists() bool {
	for _, i := range r.items {
		if i.listed {
			return true
		}
	}
	return false
}

// record returns that of a pod. The caller holds mu.
func (p *PLEG) record(uid types.UID) *record {
	r := p.pods[uid]
	if r == nil {
		r = &record{pod: container.Pod{UID: uid}, items: map[string]*item{}, turn: make(chan struct{}, 1)}
		p.pods[uid] = r
	}
	return r
}

// item returns that of an id. The caller holds mu.
func (p *PLEG) item(uid types.UID, id string) *item {
	r := p.record(uid)
	i := r.items[id]
	if i == nil {
		i = &item{}
		r.items[id], p.owner[id] = i, uid
	}
	return i
}

// drop forgets an id. The caller holds mu.
func (p *PLEG) drop(r *record, id string) {
	delete(r.items, id)
	delete(p.owner, id)
}

// forget drops a record that says nothing. The caller holds mu.
func (p *PLEG) forget(uid types.UID, r *record) {
	if len(r.items) == 0 && r.lost == 0 && r.waiting == 0 && p.pods[uid] == r {
		delete(p.pods, uid)
	}
}

// touched has a sandbox or container inspected before anybody sees its pod again.
func (p *PLEG) touched(pod container.Pod, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.item(pod.UID, id).marked = p.mark()
	p.stir(pod.UID)
}

// missed has everything listed before anybody sees a pod again.
func (p *PLEG) missed(pod container.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(pod.UID).lost = p.mark()
}

// renew makes the view anew and says whether it changed. The caller holds mu.
func (r *record) renew() bool {
	var sandboxes []*container.Sandbox
	var containers []*container.Container
	var errs []error
	for id, i := range r.items {
		switch {
		case i.err != nil:
			errs = append(errs, fmt.Errorf("the state of %s is unknown: %w", id, i.err))
		case i.sandbox != nil:
			r.pod = i.sandbox.Pod
			sandboxes = append(sandboxes, i.sandbox)
		case i.container != nil:
			r.pod = i.container.Pod
			containers = append(containers, i.container)
		}
	}
	before, failed := r.view, r.err != nil
	r.view, r.err = observed.New(r.pod, sandboxes, containers), errors.Join(errs...)
	return failed != (r.err != nil) || !observed.Same(before, r.view)
}

// refresh inspects what is due of a pod and returns its view.
func (p *PLEG) refresh(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	p.mu.Lock()
	r := p.pods[uid]
	if r == nil {
		p.mu.Unlock()
		return nil, nil
	}
	r.waiting++ // so that the record stays
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		r.waiting--
		p.forget(uid, r)
	}()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.inspect(ctx, uid, r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.view, r.err
}

// inspect asks the engine for all that is due of a pod, at once. The caller has the turn.
func (p *PLEG) inspect(ctx context.Context, uid types.UID, r *record) {
	due := map[string]uint64{}
	p.mu.Lock()
	for id, i := range r.items {
		if i.marked > i.seen {
			due[id] = i.marked
		}
	}
	p.mu.Unlock()
	if len(due) == 0 {
		return
	}
	var wg sync.WaitGroup
	for id, mark := range due {
		wg.Go(func() {
			var s *container.Sandbox
			var c *container.Container
			err := p.gate.Do(ctx, func() (err error) {
				s, c, err = p.cfg.Runtime.Inspect(ctx, id)
				return err
			})
			p.mu.Lock()
			defer p.mu.Unlock()
			i := r.items[id]
			switch {
			case i == nil || err != nil && ctx.Err() != nil:
			case errors.Is(err, container.ErrNotFound):
				if i.marked == mark {
					p.drop(r, id)
				}
			case err != nil:
				i.err = err
			default:
				i.sandbox, i.container, i.err, i.seen = s, c, nil, mark
			}
		})
	}
	wg.Wait()
	p.mu.Lock()
	changed := r.renew()
	p.mu.Unlock()
	if changed {
		p.cfg.Changed(uid)
	}
}

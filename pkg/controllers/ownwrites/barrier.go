// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Barrier holds passes back while the cache is older than what was written before. No worker waits for it: a pass that is too
// early asks for another one and ends. Mostly the event that the cache was waiting for is what causes that one.
type Barrier struct {
	stores Stores
	live   client.Reader
}

// NewBarrier returns the barrier of controllers that read from stores. What came of a write without an answer is asked of live,
// which needs no right but to list metadata.
func NewBarrier(stores Stores, live client.Reader) *Barrier { return &Barrier{stores, live} }

// PerRequest returns r with a barrier in front of each pass: what earlier passes for the same request wrote by a Client with
// their context. That does not hold back passes for other requests.
func (b *Barrier) PerRequest(r reconcile.Reconciler) reconcile.Reconciler {
	return &reconciler{barrier: b, inner: r, pending: map[reconcile.Request]*pass{}}
}

// ForAll is PerRequest for a controller in which each pass decides on what the passes for other requests wrote. It must not
// have more than one worker.
func (b *Barrier) ForAll(r reconcile.Reconciler) reconcile.Reconciler {
	return &reconciler{barrier: b, inner: r, common: true, pending: map[reconcile.Request]*pass{}}
}

// reconciler is a reconciler behind a barrier. Safe for concurrent use with different requests.
type reconciler struct {
	barrier *Barrier
	inner   reconcile.Reconciler
	// common says that all requests share what is pending.
	common bool

	mu sync.Mutex
	// pending has the last pass for a request if it wrote; it is guarded by mu. A pass that runs is not in it.
	pending map[reconcile.Request]*pass
	// swept is the size of pending after those that the cache has were taken out; it is guarded by mu.
	swept int
}

// A pass that is held back is tried again after minDelay, then after twice that and so on, up to maxDelay.
const (
	minDelay = 5 * time.Millisecond
	maxDelay = time.Second
)

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req
	if r.common {
		key = reconcile.Request{}
	}
	p := r.take(key)
	defer r.keep(key, p)
	if err := p.find(ctx, r.barrier); err != nil {
		return reconcile.Result{}, err
	}
	if missing := p.missing(r.barrier.stores); missing != nil {
		delay := min(minDelay<<min(p.heldBack, 16), maxDelay)
		p.heldBack++
		ctrl.LoggerFrom(ctx).V(4).Info("The cache lacks an own write", "kind", missing.kind.Kind, "object", missing.key, "delay", delay)
		return reconcile.Result{RequeueAfter: delay}, nil
	}
	p.heldBack = 0
	p.restart(nil)
	return r.inner.Reconcile(context.WithValue(ctx, passKey{}, p), req)
}

// take returns the pass that is pending, or a new one.
func (r *reconciler) take(key reconcile.Request) *pass {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pending[key]
	if p == nil {
		return &pass{}
	}
	delete(r.pending, key)
	return p
}

// keep remembers a pass that wrote. Some are never followed by another one, so from time to time those that the cache has are
// forgotten.
func (r *reconciler) keep(key reconcile.Request, p *pass) {
	if len(p.all()) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[key] = p
	if len(r.pending) < 2*r.swept+sweepSize {
		return
	}
	for key, p := range r.pending {
		if p.missing(r.barrier.stores) == nil {
			delete(r.pending, key)
		}
	}
	r.swept = len(r.pending)
}

// sweepSize is how many passes may be pending that nobody looks for.
const sweepSize = 100

// pass is what one pass wrote.
type pass struct {
	mu sync.Mutex
	// writes is guarded by mu: the pass may write in several goroutines.
	writes []write
	// heldBack is how often the next pass was held back. Only the worker that has the request uses it.
	heldBack int
}

type passKey struct{}

// note adds a write to the pass that ctx belongs to.
func note(ctx context.Context, w write) {
	p, ok := ctx.Value(passKey{}).(*pass)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, w)
}

// missing returns a write that a store lacks, nil if there is none. It begins with the last one, which is the most likely.
func (p *pass) missing(stores Stores) *write {
	writes := p.all()
	for i := len(writes) - 1; i >= 0; i-- {
		if w := &writes[i]; w.lost != nil || !w.isIn(stores.Of(w.kind)) {
			return w
		}
	}
	return nil
}

// find replaces the writes that had no answer by what there is to be seen of them. Those of a kind that nobody caches are not
// looked for: some, such as reviews, cannot be listed.
func (p *pass) find(ctx context.Context, b *Barrier) error {
	writes := p.all()
	if !slices.ContainsFunc(writes, func(w write) bool { return w.lost != nil }) {
		return nil
	}
	var known []write
	for _, w := range writes {
		switch {
		case w.lost == nil:
			known = append(known, w)
			continue
		case len(b.stores.Of(w.kind)) == 0:
			continue
		}
		found, err := w.find(ctx, b.live)
		if err != nil {
			return fmt.Errorf("finding out whether %s %q was written: %w", w.kind.Kind, w.key, err)
		}
		known = append(known, found...)
	}
	p.restart(known)
	return nil
}

// all returns the writes so far.
func (p *pass) all() []write {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// restart replaces the writes.
func (p *pass) restart(writes []write) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = writes
}

// find asks the API server what a write without an answer may have changed.
func (w write) find(ctx context.Context, live client.Reader) ([]write, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(w.kind.GroupVersion().WithKind(w.kind.Kind + "List"))
	opts := []client.ListOption{client.InNamespace(w.key.Namespace), client.MatchingLabels(w.lost.labels)}
	if w.key.Name != "" {
		opts[1] = client.MatchingFields{metav1.ObjectNameField: w.key.Name}
	}
	if err := live.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	var found []write
	gone := w.lost.uid != ""
	for i := range list.Items {
		item := &list.Items[i]
		if w.key.Name == "" && controllerOf(item) != w.lost.controller {
			continue
		}
		found = append(found, write{kind: w.kind, key: client.ObjectKeyFromObject(item), version: item.ResourceVersion})
		gone = gone && item.UID != w.lost.uid
	}
	if gone {
		found = append(found, write{kind: w.kind, key: w.key, deleted: w.lost.uid})
	}
	return found, nil
}

// controllerOf returns the UID of the controller of obj, empty if it has none.
func controllerOf(obj metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return ref.UID
	}
	return ""
}

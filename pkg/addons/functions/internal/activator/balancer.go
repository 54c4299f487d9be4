// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"container/list"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/addons/functions/internal/scaler"
)

// Pod is one that takes requests.
type Pod struct {
	// Name tells pods apart.
	Name string
	// Epoch grows whenever the pod has been made ready anew: one that was given up is taken again with the next epoch only.
	Epoch int
	// Address is HOST:PORT.
	Address string
}

// Revision is the pods that share requests.
type Revision struct {
	// Name of the revision.
	Name string
	// Percent of the requests that it gets. What is held for one whose share has gone is given to another.
	Percent int
	// Pods take requests.
	Pods []Pod
}

// Routes is where the requests of a function go.
type Routes struct {
	// Concurrency is how many requests a pod has at most.
	Concurrency int
	// Timeout is how long a request may take in a pod.
	Timeout time.Duration
	// MaxBody is how many bytes a request may have; 0 is no limit.
	MaxBody int64
	// Refusal is why no request can be answered, if there is no pod and there will be none until the function changes.
	Refusal string
	// Revisions with pods or with shares.
	Revisions []Revision
}

// Stats is what is known of the requests of a revision.
type Stats struct {
	// Outstanding are the requests that have come and have no answer yet, of which Held wait for a pod, the oldest for HeldFor.
	Outstanding, Held int
	HeldFor           time.Duration
	// Stable and Panic are averages of Outstanding over the scaler's windows.
	Stable, Panic float64
	// Last is when a request last came or ended; zero if there was none.
	Last time.Time
}

// Bounds of what is held.
const (
	// MaxHeld is how many requests of a function wait for a pod at most.
	MaxHeld = 1000
	// MaxHold is how long each waits.
	MaxHold = 60 * time.Second
)

// ErrFull is that of a request for which there is no room.
var ErrFull = errors.New("too many requests wait already: try again later")

// Errors of requests that get no pod.
var (
	errLate    = errors.New("no pod of the function could take the request in time: see its conditions by kubectl describe function")
	errRemoved = errors.New("the function has been deleted")
)

// refusedError is a function's Refusal.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// pod is a Pod with its requests.
type pod struct {
	Pod
	revision    *revision
	outstanding int
	routed      bool // it is in the routes
	failed      bool // it was given up in this epoch
}

func (p *pod) takes(concurrency int) bool {
	return p.routed && !p.failed && p.outstanding < concurrency
}

// waiter is a request that is held; got is told a pod, or why there is none.
type waiter struct {
	since time.Time
	got   chan assignment
}

type assignment struct {
	pod *pod
	err error
}

// revision is a Revision with its requests.
type revision struct {
	name        string
	percent     int
	pods        []*pod
	waiting     *list.List // of *waiter
	outstanding int
	last        time.Time
	window      scaler.Window
}

func (r *revision) count(now time.Time, change int) {
	r.outstanding += change
	r.last = now
	r.window.Record(now, r.outstanding)
}

// balancer gives the requests of one function to pods: to the one with the fewest, within the concurrency. It holds what finds none.
type balancer struct {
	wanted func() // called without the lock when a request begins to be held

	mu        sync.Mutex
	routes    Routes
	revisions map[string]*revision
	held      int
	removed   bool
}

func newBalancer(wanted func()) *balancer {
	return &balancer{wanted: wanted, revisions: map[string]*revision{}}
}

// set takes new routes: pods that are no longer in them get no requests, those that are new get what is held.
func (b *balancer) set(routes Routes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.routes = routes
	now := time.Now()
	named := map[string]bool{}
	for _, want := range routes.Revisions {
		named[want.Name] = true
		r := b.revisions[want.Name]
		if r == nil {
			r = &revision{name: want.Name, waiting: list.New()}
			b.revisions[want.Name] = r
		}
		r.percent = want.Percent
		r.setPods(want.Pods)
	}
	for name, r := range b.revisions {
		if !named[name] {
			r.percent = 0
			r.setPods(nil)
		}
	}
	b.move(now)
	for name, r := range b.revisions {
		b.dispatch(r)
		if !named[name] && r.outstanding == 0 {
			delete(b.revisions, name)
		}
	}
}

func (r *revision) setPods(want []Pod) {
	known := map[string]*pod{}
	for _, p := range r.pods {
		known[p.Name] = p
		p.routed = false
	}
	for _, w := range want {
		p := known[w.Name]
		if p == nil {
			p = &pod{revision: r}
			r.pods = append(r.pods, p)
		}
		if w.Epoch != p.Epoch || w.Address != p.Address {
			p.failed = false
		}
		p.Pod, p.routed = w, true
	}
	kept := r.pods[:0]
	for _, p := range r.pods {
		if p.routed || p.outstanding > 0 {
			kept = append(kept, p)
		}
	}
	clear(r.pods[len(kept):])
	r.pods = kept
}

// move gives what is held for revisions without a share to those that have one, and refuses it if the routes say so.
func (b *balancer) move(now time.Time) {
	for _, r := range b.revisions {
		for e := r.waiting.Front(); e != nil; {
			next := e.Next()
			if b.routes.Refusal != "" {
				b.leave(r, e, now, assignment{err: refusedError(b.routes.Refusal)})
			} else if r.percent == 0 {
				if to := b.choose(); to != nil && to != r {
					r.waiting.Remove(e)
					r.count(now, -1)
					to.waiting.PushBack(e.Value)
					to.count(now, 1)
				}
			}
			e = next
		}
	}
}

// leave ends the wait of a request that gets no pod.
func (b *balancer) leave(r *revision, e *list.Element, now time.Time, a assignment) {
	r.waiting.Remove(e)
	r.count(now, -1)
	b.held--
	e.Value.(*waiter).got <- a
}

// choose returns a revision by the shares; nil if none has one.
func (b *balancer) choose() *revision {
	n := 0
	var only *revision
	for _, r := range b.revisions {
		if r.percent > 0 {
			n += r.percent
			only = r
		}
	}
	if only == nil || only.percent == n {
		return only
	}
	at := rand.IntN(n)
	for _, r := range b.revisions {
		if at -= r.percent; at < 0 && r.percent > 0 {
			return r
		}
	}
	return only
}

// dispatch gives pods to what is held for a revision, as long as there are any.
func (b *balancer) dispatch(r *revision) {
	for e := r.waiting.Front(); e != nil; e = r.waiting.Front() {
		p := r.free(b.routes.Concurrency)
		if p == nil {
			return
		}
		p.outstanding++
		b.held--
		r.waiting.Remove(e)
		e.Value.(*waiter).got <- assignment{pod: p}
	}
}

// free returns the pod with the fewest requests that takes another; nil if there is none.
func (r *revision) free(concurrency int) *pod {
	var best *pod
	for _, p := range r.pods {
		if p.takes(concurrency) && (best == nil || p.outstanding < best.outstanding) {
			best = p
		}
	}
	return best
}

// acquire returns a pod for a request, after a while if there is none. Each is to be released.
func (b *balancer) acquire(ctx context.Context) (*pod, error) {
	p, w, err := b.tryAcquire()
	if p != nil || err != nil {
		return p, err
	}
	b.wanted()
	timer := time.NewTimer(MaxHold)
	defer timer.Stop()
	select {
	case a := <-w.got:
		return a.pod, a.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errLate
	}
	if a, decided := b.abandon(w); decided {
		if a.pod != nil { // it came at the same instant
			b.release(a.pod, false)
		}
	}
	return nil, err
}

func (b *balancer) tryAcquire() (*pod, *waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.removed {
		return nil, nil, errRemoved
	}
	r := b.choose()
	if r != nil && r.waiting.Len() == 0 {
		if p := r.free(b.routes.Concurrency); p != nil {
			p.outstanding++
			r.count(now, 1)
			return p, nil, nil
		}
	}
	switch {
	case b.routes.Refusal != "":
		return nil, nil, refusedError(b.routes.Refusal)
	case b.held >= MaxHeld:
		return nil, nil, ErrFull
	case r == nil: // nothing is known of the function yet: what comes first gets what is held here
		r = b.revisions[""]
		if r == nil {
			r = &revision{waiting: list.New()}
			b.revisions[""] = r
		}
	}
	w := &waiter{since: now, got: make(chan assignment, 1)}
	r.waiting.PushBack(w)
	r.count(now, 1)
	b.held++
	return nil, w, nil
}

// abandon ends a wait that the request itself has given up, or returns what came of it meanwhile.
func (b *balancer) abandon(w *waiter) (assignment, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, r := range b.revisions {
		for e := r.waiting.Front(); e != nil; e = e.Next() {
			if e.Value == w {
				r.waiting.Remove(e)
				r.count(now, -1)
				b.held--
				return assignment{}, false
			}
		}
	}
	return <-w.got, true
}

// release says that a request has ended. If nothing answered at the pod's address, it gets no more until its next epoch, and release
// tells whether that is news.
func (b *balancer) release(p *pod, failed bool) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.outstanding--
	p.revision.count(time.Now(), -1)
	if failed && !p.failed {
		p.failed, news = true, p.routed
	}
	b.dispatch(p.revision)
	return news
}

// remove ends the wait of everything that is held, and lets nothing more in.
func (b *balancer) remove() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removed = true
	now := time.Now()
	for _, r := range b.revisions {
		for e := r.waiting.Front(); e != nil; e = r.waiting.Front() {
			b.leave(r, e, now, assignment{err: errRemoved})
		}
	}
}

// stats are those of all revisions; what came before anything was known of the function has an empty name.
func (b *balancer) stats() map[string]Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	all := make(map[string]Stats, len(b.revisions))
	for name, r := range b.revisions {
		s := Stats{Outstanding: r.outstanding, Held: r.waiting.Len(), Last: r.last}
		if e := r.waiting.Front(); e != nil {
			s.HeldFor = now.Sub(e.Value.(*waiter).since)
		}
		s.Stable, s.Panic = r.window.Average(now, scaler.StableWindow), r.window.Average(now, scaler.PanicWindow)
		all[name] = s
	}
	return all
}

// outstanding is how many requests a pod has.
func (b *balancer) outstanding(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.revisions {
		for _, p := range r.pods {
			if p.Name == name {
				return p.outstanding
			}
		}
	}
	return 0
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pleg is the pod life-cycle event generator: it keeps a view of what the container engine has of each pod and says
// which pods changed. Touch it when the kubelet is slow to notice something, or asks the engine too much.
//
// An event names a container, and that one is inspected; so is each that this kubelet itself has done something with (Runtime).
// A listing, once a minute, finds what events did not tell. What cannot be inspected makes the view of its pod unknown and no
// other.
package pleg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/gate"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

const (
	// threshold is how old the last listing may be, as upstream's.
	threshold = 3 * time.Minute
	// coalesce is how long events of a pod are gathered, because they come in twos and threes.
	coalesce = 20 * time.Millisecond
	// blind is how often is listed while no events come, as upstream's PLEG does that has none.
	blind = time.Second
	// inspections may be under way at once, of those that take no longer than usual.
	inspections, usual = 8, time.Second
)

// Config is what a PLEG is made from.
type Config struct {
	Runtime container.Runtime
	Clock   clock.Clock
	// Relist is the time between two listings while events come; a minute if 0.
	Relist time.Duration
	// Changed is called for each pod whose view is not as it was. It must not block.
	Changed func(types.UID)
	// Relisted is told of each listing that succeeded how long it took and how long after the one before it began, 0 if it was the
	// first; nil if nobody wants to know. It must not block.
	Relisted func(took, since time.Duration)
}

// PLEG is safe for concurrent use.
type PLEG struct {
	cfg  Config
	gate *gate.Gate
	// stirred has a value when due is not empty.
	stirred chan struct{}

	mu sync.Mutex // guards the fields below, and those of the records
	// marks orders what is asked and what is answered: a mark is the number of what happened.
	marks uint64
	pods  map[types.UID]*record
	owner map[string]types.UID // by the id of a sandbox or container
	due   map[types.UID]bool   // to be inspected without anybody asking
	// listed is the mark at which the last listing began, at beganAt, and listedAt when it was over; listing is closed when the one
	// under way is.
	listed            uint64
	beganAt, listedAt time.Time
	listing           chan struct{}
}

// New returns a PLEG.
func New(cfg Config) *PLEG {
	if cfg.Relist == 0 {
		cfg.Relist = time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &PLEG{
		cfg: cfg, gate: gate.New(inspections, usual), stirred: make(chan struct{}, 1),
		pods: map[types.UID]*record{}, owner: map[string]types.UID{}, due: map[types.UID]bool{},
	}
}

// Healthy returns an error if nothing has been listed for longer than three minutes.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	at := p.listedAt
	p.mu.Unlock()
	if at.IsZero() {
		return errors.New("pleg has yet to be successful")
	}
	if elapsed := p.cfg.Clock.Since(at); elapsed > threshold {
		return fmt.Errorf("pleg was last seen active %s ago; threshold is %s", elapsed.Truncate(time.Second), threshold)
	}
	return nil
}

// Pods returns the views of all pods that the engine has something of, as last seen. Of one that could not be inspected yet only
// the identity is known.
func (p *PLEG) Pods() map[types.UID]*observed.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[types.UID]*observed.Pod, len(p.pods))
	for uid, r := range p.pods {
		switch {
		case r.view != nil:
			out[uid] = r.view
		case r.exists():
			out[uid] = &observed.Pod{Pod: r.pod}
		}
	}
	return out
}

// IDs are those of all sandboxes and containers that the engine is known to have.
func (p *PLEG) IDs() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]bool, len(p.owner))
	for id := range p.owner {
		out[id] = true
	}
	return out
}

// Pod returns the view of a pod, nil if the engine has nothing of it. All that this kubelet has done through Runtime before the
// call is in it. It fails if the engine does not tell, in which case nothing is known of the pod.
func (p *PLEG) Pod(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	p.mu.Lock()
	r := p.pods[uid]
	lost := p.listed == 0 || r != nil && r.lost != 0
	p.mu.Unlock()
	if lost {
		if err := p.Relist(ctx); err != nil {
			return nil, err
		}
	}
	return p.refresh(ctx, uid)
}

// Relist returns when a listing has ended that began after the call. Callers who wait share one.
func (p *PLEG) Relist(ctx context.Context) error {
	p.mu.Lock()
	want := p.mark()
	for p.listed < want {
		if wait := p.listing; wait != nil {
			p.mu.Unlock()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-wait:
			}
			p.mu.Lock()
			continue
		}
		done := make(chan struct{})
		p.listing = done
		began := p.mark()
		p.mu.Unlock()

		at := p.cfg.Clock.Now()
		found, err := p.cfg.Runtime.List(ctx)
		p.mu.Lock()
		p.listing = nil
		close(done)
		if err != nil {
			p.mu.Unlock()
			return fmt.Errorf("listing containers: %w", err)
		}
		since := time.Duration(0)
		if !p.beganAt.IsZero() {
			since = at.Sub(p.beganAt)
		}
		p.listed, p.listedAt, p.beganAt = began, p.cfg.Clock.Now(), at
		changed := p.compare(found, began)
		took := p.listedAt.Sub(at)
		p.mu.Unlock()
		p.tell(changed)
		if p.cfg.Relisted != nil {
			p.cfg.Relisted(took, since)
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	return nil
}

// mark returns a new mark. The caller holds mu.
func (p *PLEG) mark() uint64 {
	p.marks++
	return p.marks
}

// compare takes a listing that began at a mark: what is not in the state that was seen is inspected, what is not there any more
// forgotten. It returns the pods that have changed by that. The caller holds mu.
func (p *PLEG) compare(found []container.Summary, began uint64) (changed []types.UID) {
	there := make(map[string]bool, len(found))
	for _, f := range found {
		there[f.ID] = true
		r := p.record(f.Pod.UID)
		r.pod = f.Pod
		i := p.item(f.Pod.UID, f.ID)
		i.listed = true
		if i.marked <= began && i.state() != f.State {
			i.marked = p.mark()
		}
		if i.marked > i.seen {
			p.stir(f.Pod.UID)
		}
	}
	for uid, r := range p.pods {
		gone := false
		for id, i := range r.items {
			if !there[id] && i.marked <= began {
				p.drop(r, id)
				gone = true
			}
		}
		if r.lost <= began {
			r.lost = 0
		}
		if gone && r.renew() {
			changed = append(changed, uid)
		}
		p.forget(uid, r)
	}
	return changed
}

// doubt has all that runs inspected again: between two streams of events it may have changed without changing its state.
func (p *PLEG) doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, r := range p.pods {
		for _, i := range r.items {
			if i.state() != container.StateExited {
				i.marked = p.mark()
				p.stir(uid)
			}
		}
	}
}

// stir has a pod inspected by Start. The caller holds mu.
func (p *PLEG) stir(uid types.UID) {
	p.due[uid] = true
	select {
	case p.stirred <- struct{}{}:
	default:
	}
}

func (p *PLEG) tell(changed []types.UID) {
	for _, uid := range changed {
		p.cfg.Changed(uid)
	}
}

// Start watches until ctx ends.
func (p *PLEG) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var events <-chan container.Event
	stop := func() {} // gives back what the stream of events holds
	// looks are the results of listings, made beside the loop, because an engine that hangs must not hold up its events.
	looks := make(chan look, 1)
	relist := p.cfg.Clock.NewTimer(0)
	defer relist.Stop()
	gather := p.cfg.Clock.NewTimer(coalesce)
	defer gather.Stop()
	gathering, looking := true, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				stop()
				events = nil
				relist.Reset(coalesce)
				continue
			}
			p.touched(container.Pod{UID: e.PodUID}, e.ID)
		case <-relist.C():
			if looking {
				continue // its end sets the timer
			}
			looking = true
			subscribe := events == nil
			wg.Go(func() { looks <- p.look(ctx, subscribe) })
		case l := <-looks:
			looking = false
			if l.events != nil {
				events, stop = l.events, l.stop
			}
			if events == nil || l.failed {
				relist.Reset(blind)
			} else {
				relist.Reset(p.cfg.Relist)
			}
		case <-p.stirred:
			if !gathering {
				gathering = true
				gather.Reset(coalesce)
			}
		case <-gather.C():
			gathering = false
			p.inspectDue(ctx, &wg)
		}
	}
}

// look is the outcome of a look at everything.
type look struct {
	events <-chan container.Event // nil if none were asked for or none come
	stop   context.CancelFunc     // ends events
	failed bool
}

// look subscribes to events if it is told to, and lists.
func (p *PLEG) look(ctx context.Context, subscribe bool) look {
	logger := klog.FromContext(ctx)
	var l look
	if subscribe {
		// Subscribing comes before listing, or a change between the two would be missed.
		stream, stop := context.WithCancel(ctx)
		events, err := p.cfg.Runtime.Events(stream)
		if err != nil {
			stop()
			logger.V(2).Info("Container engine gives no events", "err", err)
		} else {
			l.events, l.stop = events, stop
			p.doubt()
		}
	}
	if err := p.Relist(ctx); err != nil {
		l.failed = true
		if ctx.Err() == nil {
			logger.Error(err, "Listing containers failed")
		}
	}
	return l
}

// inspectDue inspects what is due, each pod for itself.
func (p *PLEG) inspectDue(ctx context.Context, wg *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid := range p.due {
		r := p.pods[uid]
		if r == nil {
			delete(p.due, uid)
			continue
		}
		if r.inspecting {
			continue // it comes back when that has ended
		}
		delete(p.due, uid)
		r.inspecting = true
		wg.Go(func() {
			if _, err := p.refresh(ctx, uid); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Inspecting failed", "uid", uid, "err", err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			r.inspecting = false
			if p.due[uid] {
				p.stir(uid)
			}
		})
	}
}

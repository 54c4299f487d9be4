// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"minik8s.io/minik8s/test/bench/figure"
)

// aims are what is wanted of a first sync: the time as a part of upstream's. What shares the interface with iptables cannot be faster
// by as much.
var aims = map[string]float64{iptables: 0.1, legacy: 0.8, nftables: 0.1}

// quiet is longer than the least time between two writes of either proxy, so that a change does not wait for an earlier one.
const quiet = 1200 * time.Millisecond

// services measures all proxies with the same API server: it has some Services, and at last many.
func (b *bench) services(ctx context.Context) error {
	s, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := s.fill(ctx, b.count); err != nil {
		return err
	}
	for i := range b.runs {
		for _, mode := range b.modes {
			for _, side := range b.sides.InRun(i) {
				begin := time.Now()
				if err := b.syncAndChange(ctx, s, side, mode); err != nil {
					return fmt.Errorf("%s, %s: %w", mode, side, err)
				}
				fmt.Fprintf(os.Stderr, "%s, run %d, %s: %.0f s\n", mode, i+1, side, time.Since(begin).Seconds())
			}
		}
	}
	if b.more == 0 {
		return nil
	}
	if err := s.fill(ctx, b.more); err != nil {
		return err
	}
	for _, side := range b.sides {
		if err := b.sync(ctx, s, side, nftables); err != nil {
			return fmt.Errorf("%d Services, %s: %w", b.more, side, err)
		}
	}
	return nil
}

// sync measures how long a proxy takes from its start until all Services are reached.
func (b *bench) sync(ctx context.Context, s *server, side figure.Side, mode string) error {
	return b.inRoom(ctx, s, side, mode, func(*room) error { return nil })
}

// syncAndChange measures besides how long single changes take when all is in the kernel.
func (b *bench) syncAndChange(ctx context.Context, s *server, side figure.Side, mode string) error {
	return b.inRoom(ctx, s, side, mode, func(r *room) error {
		if err := b.change(ctx, s, r, side, mode); err != nil {
			return err
		}
		return b.add(ctx, s, r, side, mode)
	})
}

// inRoom starts a proxy in a namespace of its own, measures its first sync and what it takes, and goes on with then.
func (b *bench) inRoom(ctx context.Context, s *server, side figure.Side, mode string, then func(*room) error) (err error) {
	dir, err := os.MkdirTemp(b.dir, "room-")
	if err != nil {
		return err
	}
	r, err := newRoom(ctx, s.URL)
	if err != nil {
		return err
	}
	defer r.close()
	p, err := b.startProxy(side, mode, r, dir)
	if err != nil {
		return err
	}
	defer p.Stop()
	peak := p.Sample(20 * time.Millisecond)
	defer peak()
	if err := s.allReached(ctx, p, r); err != nil {
		return err
	}
	what := fmt.Sprintf("%s, %d Services: ", mode, len(s.all))
	b.table.Add(side, figure.Figure{Name: what + "first sync, from the start of the process", Unit: "s", AtMost: aims[mode]}, time.Since(p.Started).Seconds())
	synced, err := p.Usage()
	if err != nil {
		return err
	}
	b.table.Add(side, figure.Figure{Name: what + "CPU until then", Unit: "s"}, synced.Processor.Seconds())
	if err := s.noneMissing(ctx, r); err != nil {
		return err
	}
	if err := then(r); err != nil {
		return err
	}
	last, err := p.Usage()
	if err != nil {
		return err
	}
	for name, value := range map[string]int64{"memory, resident": last.Resident, "memory, anonymous": last.Anonymous, "memory at its peak, anonymous": peak()} {
		b.table.Add(side, figure.Figure{Name: what + name, Unit: "MiB", AtMost: 0.4}, float64(value)/(1<<20))
	}
	return p.Alive()
}

// change measures how long after the API's answer the one endpoint of a Service is another in the kernel.
func (b *bench) change(ctx context.Context, s *server, r *room, side figure.Side, mode string) (err error) {
	const name = "changing"
	endpoint := s.next()
	service, err := s.add(ctx, name, endpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove(ctx, name)) }()
	if err := r.reaches(ctx, service, endpoint); err != nil {
		return err
	}
	return b.times(ctx, side, fmt.Sprintf("%s, %d Services: endpoint changed to in the kernel", mode, len(s.all)), 10, func(int) (time.Time, error) {
		endpoint := s.next()
		if err := s.change(ctx, name, endpoint); err != nil {
			return time.Time{}, err
		}
		answered := time.Now()
		return answered, r.reaches(ctx, service, endpoint)
	})
}

// add measures how long after the API's answer a new Service is reached.
func (b *bench) add(ctx context.Context, s *server, r *room, side figure.Side, mode string) (err error) {
	var names []string
	defer func() {
		for _, name := range names {
			err = errors.Join(err, s.remove(ctx, name))
		}
	}()
	return b.times(ctx, side, fmt.Sprintf("%s, %d Services: Service added to in the kernel", mode, len(s.all)), 20, func(i int) (time.Time, error) {
		name, endpoint := fmt.Sprintf("added-%d", i), s.next()
		service, err := s.add(ctx, name, endpoint)
		if err != nil {
			return time.Time{}, err
		}
		answered := time.Now()
		names = append(names, name)
		return answered, r.reaches(ctx, service, endpoint)
	})
}

// times does something again and again, each time after a pause, and notes how long it took since it says that it began. The limit is
// that of 99 % in milliseconds.
func (b *bench) times(ctx context.Context, side figure.Side, what string, limit float64, do func(i int) (time.Time, error)) error {
	pause := time.NewTicker(quiet)
	defer pause.Stop()
	var took []time.Duration
	for i := range b.changes {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		begun, err := do(i)
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
		pause.Reset(quiet)
	}
	b.latency(side, what, limit, took)
	return nil
}

// latency notes the median and 99 % of some times. The limit is that of 99 % in milliseconds, 0 for none.
func (b *bench) latency(side figure.Side, what string, limit float64, took []time.Duration) {
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.table.Add(side, figure.Figure{Name: what + ", median", Unit: "ms"}, milliseconds(figure.Percentile(took, 0.5)))
	b.table.Add(side, figure.Figure{Name: what + ", 99 %", Unit: "ms", Within: limit}, milliseconds(figure.Percentile(took, 0.99)))
}

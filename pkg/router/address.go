// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/serve"
)

// addresses are those of the subnets that the machine has, with the time until which those that nobody wants any more are kept for
// the requests that are on their way. The zero value knows none, and the first time takes away what an earlier process has left.
type addresses struct {
	until map[netip.Addr]time.Time // zero: it is wanted
	taken bool
}

// next tells which are to be had from now on, and whether that is any other than before.
func (a *addresses) next(want []netip.Addr, now time.Time) (all []netip.Addr, changed bool) {
	if a.until == nil {
		a.until = map[netip.Addr]time.Time{}
	}
	changed = !a.taken
	for _, w := range want {
		if _, had := a.until[w]; !had {
			changed = true
		}
		a.until[w] = time.Time{}
	}
	for x, until := range a.until {
		switch {
		case slices.Contains(want, x):
		case until.IsZero():
			a.until[x] = now.Add(serve.DrainTime)
		case !now.Before(until):
			changed = true
			delete(a.until, x)
		}
	}
	return slices.SortedFunc(maps.Keys(a.until), netip.Addr.Compare), changed
}

// draining tells whether some are kept although nobody wants them.
func (a *addresses) draining() bool {
	for _, until := range a.until {
		if !until.IsZero() {
			return true
		}
	}
	return false
}

// take has the machine have the addresses that Gateways are served at.
func (r *Router) take(want []netip.Addr) error {
	if len(r.Subnets) == 0 {
		return nil
	}
	all, changed := r.addresses.next(want, time.Now())
	if r.addresses.draining() {
		time.AfterFunc(serve.DrainTime, r.watch.poke)
	}
	if !changed {
		return nil
	}
	err := r.Take(all)
	r.addresses.taken = err == nil
	return err
}

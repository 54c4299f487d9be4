// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nftables is the backend that writes a table of nftables, by netlink and without running a program. Change it when a packet
// should take another way in that mode, or when rules reach the kernel in another way.
//
// There is a table per IP family. Maps lead from an address, protocol and port to the chain of a Service, so that it does not matter how
// many Services there are:
//
//	prerouting, output ─► firewall-check ─► (firewall-ips) firewall-… : source ranges of load balancers
//	prerouting, output ─► services ─► (service-ips) plain-N : one of N numbers is chosen, and (plain-endpoints) has an address for
//	                                  that and where the packet goes; or
//	                                  (service-ips, service-nodeports) [external-… ─►] service-… or local-… : a number is
//	                                  chosen, and (endpoints-…) has an address for it
//	input, forward, output ─► service-endpoints-check ─► (no-endpoint-services) reject-chain or drop-chain
//	postrouting ─► masquerading
//
// Rules carry a fingerprint of what they say as their comment, so that what is there is compared without decoding it. A table cannot
// accept what another one drops: packets of pods get past Docker's rules by those of the pod network.
package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/ruleset"
	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/model"
	"minik8s.io/minik8s/pkg/proxy/netspace"
)

// Table implements backend.Backend by one table.
type Table struct {
	language
	config backend.Config
	name   string
	base   *state
	// parts are what the Services should have in the kernel.
	parts map[model.Name]*state
	// claims are what parts say of elements of shared sets, of which some are said more than once.
	claims claims
	// trusted tells that the kernel has all that, by our knowledge.
	trusted bool
	// generation of all rules of the namespace, by anybody, at which that was right.
	generation uint32
}

var _ backend.Backend = (*Table)(nil)

// New returns a Table that knows nothing of the kernel's state yet.
func New(c backend.Config) *Table {
	return &Table{
		language: languageOf(c.Family), config: c, name: "minik8s-proxy-" + c.Cluster, base: baseOf(c),
		parts: map[model.Name]*state{}, claims: claims{},
	}
}

// Apply implements backend.Backend. All of it is one transaction.
func (t *Table) Apply(_ context.Context, changes backend.Changes) error {
	have, want := newState(), newState()
	touched := map[place]bool{}
	for name, s := range changes {
		old, now := t.parts[name], newState()
		if s != nil {
			now = render(s, t.config)
			t.parts[name] = now
		} else {
			delete(t.parts, name)
		}
		if old == nil {
			old = newState()
		}
		oldShared, oldOwn := t.shared(old)
		shared, own := t.shared(now)
		for _, p := range slices.Concat(oldShared, shared) {
			if touched[p.place] {
				continue
			}
			touched[p.place] = true
			if d, ok := t.claims.effective(p.place); ok {
				have.addElement(p.set, p.key, d)
			}
		}
		t.claims.withdraw(oldShared)
		t.claims.add(shared)
		have.merge(oldOwn)
		want.merge(own)
	}
	for p := range touched {
		if d, ok := t.claims.effective(p); ok {
			want.addElement(p.set, p.key, d)
		}
	}
	return t.inside(func() error {
		if t.trusted {
			return t.write(have, want)
		}
		return t.rewrite()
	})
}

// rewrite brings the kernel from whatever it has to what all Services should have.
func (t *Table) rewrite() error {
	t.generation, _ = ruleset.Generation() // what changes meanwhile is looked at again
	have, err := read(t.family, t.name)
	if err != nil {
		return fmt.Errorf("reading table %s: %w", t.name, err)
	}
	b := t.batch()
	if have == nil {
		b.addTable()
		have = newState()
	}
	b.plan(have, t.all())
	return t.commit(b)
}

// shared splits what a Service has into the elements of shared sets and the rest.
func (t *Table) shared(s *state) (list []claim, own *state) {
	own = &state{chains: s.chains, sets: s.sets, elements: map[string]elements{}}
	for name, of := range s.elements {
		if _, ok := t.base.sets[name]; !ok {
			own.elements[name] = of
			continue
		}
		for key, d := range of {
			list = append(list, claim{place{name, key}, d})
		}
	}
	return list, own
}

// all is the whole table as it should be.
func (t *Table) all() *state {
	s := newState()
	s.merge(t.base)
	for _, part := range t.parts {
		_, own := t.shared(part)
		s.merge(own)
	}
	for p := range t.claims {
		if d, ok := t.claims.effective(p); ok {
			s.addElement(p.set, p.key, d)
		}
	}
	return s
}

// Check implements backend.Backend.
func (t *Table) Check(context.Context) (intact bool, err error) {
	if !t.trusted {
		return false, nil
	}
	err = t.inside(func() error {
		now, ok := ruleset.Generation()
		if intact = ok && now == t.generation; intact {
			return nil
		}
		have, err := read(t.family, t.name)
		if err != nil {
			return fmt.Errorf("reading table %s: %w", t.name, err)
		}
		if intact = have != nil && have.equal(t.all()); intact {
			t.generation = now
		}
		t.trusted = intact
		return nil
	})
	return intact, err
}

// Purge implements backend.Backend.
func (t *Table) Purge(context.Context) error {
	t.trusted = false
	return t.inside(func() error {
		have, err := read(t.family, t.name)
		if err != nil {
			return fmt.Errorf("reading table %s: %w", t.name, err)
		}
		if have == nil {
			return nil
		}
		b := t.batch()
		b.deleteTable()
		return t.commit(b)
	})
}

func (t *Table) inside(f func() error) error { return netspace.Do(t.config.NetNS, f) }

func (t *Table) batch() *batch { return &batch{language: t.language, table: t.name} }

// write leads from one state of a part of the table to another, in one transaction.
func (t *Table) write(have, want *state) error {
	b := t.batch()
	b.plan(have, want)
	return t.commit(b)
}

func (t *Table) commit(b *batch) error {
	if b.count == 0 {
		t.trusted = true
		return nil
	}
	t.trusted = false
	before, ok := ruleset.Generation()
	if err := b.commit(); errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("changing table %s: does the kernel have nf_tables? %w", t.name, err)
	} else if err != nil {
		return fmt.Errorf("changing table %s: %w", t.name, err)
	}
	t.trusted = true
	// A transaction makes the next number, which is never 0. If others have changed rules since the last time, or do at this
	// moment, the number is not right, and the table is read at the next check.
	if ok && before == t.generation {
		t.generation = max(before+1, 1)
	}
	return nil
}

// place is where an element of a shared set is.
type place struct{ set, key string }

// claim is what a Service says of a place.
type claim struct {
	place
	data data
}

// claims are what Services say of places, each as often as it is said.
type claims map[place][]data

// effective is what counts of the claims to a place: of two Services that claim an address, the first by name.
func (c claims) effective(p place) (data, bool) {
	list := c[p]
	if len(list) == 0 {
		return data{}, false
	}
	return slices.MinFunc(list, func(a, b data) int { return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(a.value, b.value)) }), true
}

func (c claims) add(list []claim) {
	for _, p := range list {
		c[p.place] = append(c[p.place], p.data)
	}
}

func (c claims) withdraw(list []claim) {
	for _, p := range list {
		rest := c[p.place]
		if i := slices.Index(rest, p.data); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
		if c[p.place] = rest; len(rest) == 0 {
			delete(c, p.place)
		}
	}
}

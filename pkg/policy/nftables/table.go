// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nftables brings a table in the kernel to what rules say, by netlink and in one transaction, touching only what differs.
// Change it when the way rules reach the kernel changes, not the rules.
//
// Rules carry a fingerprint of what they say as their comment, so that what is there is compared without decoding it.
package nftables

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/ruleset"
	"minik8s.io/minik8s/pkg/policy/rules"
)

// Table is a table of a network namespace. It is not safe for concurrent use.
type Table struct {
	netNS, name string
	// known is what the kernel has; nil when that is not known, as at the start and after a failure.
	known *state
	// generation of all rules of the namespace, by anybody, at which known was right.
	generation uint32
}

// New returns the table of a name in the network namespace at path, "" for the process's own. It makes nothing yet.
func New(path, name string) *Table { return &Table{netNS: path, name: name} }

// Apply makes the kernel's table equal to want.
func (t *Table) Apply(want *rules.Table) error {
	return t.inside(func() error {
		if err := t.look(); err != nil {
			return err
		}
		_, err := t.change(want)
		return err
	})
}

// Heal is Apply if somebody else has changed rules since the last time, and tells whether the table was not as it should be.
func (t *Table) Heal(want *rules.Table) (amiss bool, err error) {
	err = t.inside(func() error {
		now, ok := generation()
		if ok && t.known != nil && now == t.generation {
			return nil
		}
		t.known = nil
		if err := t.look(); err != nil {
			return err
		}
		amiss, err = t.change(want)
		return err
	})
	return amiss, err
}

// Remove deletes the table. Absence is success.
func (t *Table) Remove() error {
	return t.inside(func() error {
		t.known = nil
		if err := t.look(); err != nil || !t.known.exists {
			return err
		}
		t.known = nil
		b := &batch{table: t.name}
		b.deleteTable()
		if err := b.commit(); err != nil {
			return fmt.Errorf("removing table %s: %w", t.name, err)
		}
		return nil
	})
}

func (t *Table) inside(f func() error) error {
	if t.netNS == "" {
		return f()
	}
	return namespace.Do(t.netNS, f)
}

// look reads the table unless it is known.
func (t *Table) look() error {
	if t.known != nil {
		return nil
	}
	before, _ := generation()
	s, err := read(t.name)
	if err != nil {
		return fmt.Errorf("reading table %s: %w", t.name, err)
	}
	t.known, t.generation = s, before // what changed meanwhile is looked at again
	return nil
}

// change writes what differs from what is known, and tells whether that is anything.
func (t *Table) change(want *rules.Table) (different bool, err error) {
	goal := after(want)
	b := plan(t.name, t.known, want, goal)
	if len(b.messages) == 0 {
		return false, nil
	}
	t.known = nil
	before, ok := generation()
	if err := b.commit(); errors.Is(err, unix.EOPNOTSUPP) {
		return true, fmt.Errorf("changing table %s: does the kernel have nf_tables? %w", t.name, err)
	} else if err != nil {
		return true, fmt.Errorf("changing table %s: %w", t.name, err)
	}
	t.known = goal
	// A transaction makes the next number, which is never 0. If others have changed rules since the last time, or do at this
	// moment, the number is not right, and the table is read at the next look.
	if ok && before == t.generation {
		t.generation = max(before+1, 1)
	}
	return true, nil
}

// generation of the rules of the calling thread's network namespace.
var generation = ruleset.Generation

// after is the state that a table leads to.
func after(want *rules.Table) *state {
	s := &state{exists: true, chains: make(map[string][]string, len(want.Chains)), sets: make(map[string]map[element]bool, len(want.Sets))}
	for _, c := range want.Chains {
		s.chains[c.Name] = fingerprints(c.Rules)
	}
	for _, set := range want.Sets {
		s.sets[set.Name] = wire(set)
	}
	return s
}

func fingerprints(list []rules.Rule) []string {
	var out []string
	for _, r := range list {
		out = append(out, fingerprint(r))
	}
	return out
}

// plan returns the transaction that leads from a state to what is wanted, which is goal as a state. What is referred to is made before the reference, and
// removed after it.
func plan(table string, have *state, want *rules.Table, goal *state) *batch {
	b := &batch{table: table}
	if !have.exists {
		b.addTable()
	}
	for _, s := range want.Sets {
		if _, ok := have.sets[s.Name]; !ok {
			b.addSet(s)
		}
	}
	for _, c := range want.Chains {
		if _, ok := have.chains[c.Name]; !ok {
			b.addChain(c)
		}
	}
	for _, s := range want.Sets {
		b.deleteElements(s.Name, missing(have.sets[s.Name], goal.sets[s.Name]))
		b.addElements(s.Name, missing(goal.sets[s.Name], have.sets[s.Name]))
	}
	for _, c := range want.Chains {
		before := have.chains[c.Name]
		if slices.Equal(before, goal.chains[c.Name]) {
			continue
		}
		if len(before) > 0 {
			b.flush(c.Name)
		}
		for _, r := range c.Rules {
			b.addRule(c.Name, r)
		}
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(have.chains)) {
		if _, ok := goal.chains[name]; !ok {
			b.flush(name)
			gone = append(gone, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have.sets)) {
		if _, ok := goal.sets[name]; !ok {
			b.deleteSet(name)
		}
	}
	for _, name := range gone {
		b.deleteChain(name)
	}
	return b
}

// missing are the elements of one that the other has not, in order: ends of ranges come after their beginnings.
func missing(of, in map[element]bool) []element {
	var out []element
	for e := range of {
		if !in[e] {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b element) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.chain, b.chain))
	})
	return out
}

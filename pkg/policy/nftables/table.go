// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nftables brings a table in the kernel to what rules say: it translates them, and network/nftables writes what differs. Change it
// when a rule should be said to the kernel in another way.
package nftables

import (
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/namespace"
	nft "minik8s.io/minik8s/pkg/network/nftables"
	"minik8s.io/minik8s/pkg/policy/rules"
)

// Table is a table of a network namespace. It is not safe for concurrent use.
type Table struct {
	netNS  string
	kernel nft.Table
	// known tells that has is what the kernel has, nil if there is no table; it is not at the start and after a failure.
	known bool
	has   *nft.State
}

// New returns the table of a name in the network namespace at path, "" for the process's own. It makes nothing yet.
func New(path, name string) *Table {
	return &Table{netNS: path, kernel: nft.Table{Family: unix.NFPROTO_INET, Name: name}}
}

// Apply makes the kernel's table equal to want.
func (t *Table) Apply(want *rules.Table) error {
	return t.inside(func() error {
		_, err := t.change(stateOf(want))
		return err
	})
}

// Heal is Apply if somebody else has changed rules since the last time, and tells whether the table was not as it should be.
func (t *Table) Heal(want *rules.Table) (amiss bool, err error) {
	err = t.inside(func() (err error) {
		if t.known && t.kernel.Untouched() {
			return nil
		}
		t.known = false
		amiss, err = t.change(stateOf(want))
		return err
	})
	return amiss, err
}

// Remove deletes the table. Absence is success.
func (t *Table) Remove() error {
	return t.inside(func() error {
		t.known = false
		_, err := t.change(nil)
		return err
	})
}

func (t *Table) inside(f func() error) error { return namespace.Do(t.netNS, f) }

// change makes the table what it should be, nil for none, and tells whether that was another thing.
func (t *Table) change(want *nft.State) (different bool, err error) {
	if !t.known {
		if t.has, err = t.kernel.Read(); err != nil {
			return false, err
		}
	}
	t.known = false
	if different, err = t.kernel.Change(t.has, want); err != nil {
		return different, err
	}
	t.has, t.known = want, true
	return different, nil
}

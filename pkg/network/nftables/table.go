// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/ruleset"
)

// Table is one table in the network namespace of whatever thread calls. It is not for concurrent use.
type Table struct {
	// Family is unix.NFPROTO_INET or that of IPv4 or IPv6.
	Family byte
	Name   string
	// generation of all rules of the namespace, by anybody, at which what its owner knows of it was right; 0: not known.
	generation uint32
}

// Untouched tells whether nobody has changed any rule of the namespace since the table was read or written.
func (t *Table) Untouched() bool {
	now, ok := ruleset.Generation()
	return ok && t.generation != 0 && now == t.generation
}

// Read returns what the kernel has of the table, nil if there is none.
func (t *Table) Read() (*State, error) {
	before, _ := ruleset.Generation()
	s, err := t.read()
	if err != nil {
		t.generation = 0
		return nil, fmt.Errorf("reading table %s: %w", t.Name, err)
	}
	t.generation = before // what changed meanwhile is looked at again
	return s, nil
}

// Change leads from one state of the table, or of a part of it, to another, in one transaction, and tells whether they differ. A nil
// state is a table that is not there. After an error nobody knows what the kernel has.
func (t *Table) Change(have, want *State) (changed bool, err error) {
	b := &batch{family: t.Family, table: t.Name}
	switch {
	case have == nil && want == nil:
	case want == nil:
		b.deleteTable()
	case have == nil:
		b.addTable()
		b.plan(NewState(), want)
	default:
		b.plan(have, want)
	}
	if b.count == 0 {
		return false, nil
	}
	before, ok := ruleset.Generation()
	known := ok && before == t.generation
	t.generation = 0
	if err := b.commit(); errors.Is(err, unix.EOPNOTSUPP) {
		return true, fmt.Errorf("changing table %s: does the kernel have nf_tables? %w", t.Name, err)
	} else if err != nil {
		return true, fmt.Errorf("changing table %s: %w", t.Name, err)
	}
	// A transaction makes the next number, which is never 0. If others have changed rules since the last time, or do at this
	// moment, the number is not right, and the table is read at the next look.
	if known {
		t.generation = max(before+1, 1)
	}
	return true, nil
}

func (t *Table) read() (*State, error) {
	exists := false
	err := Dump(t.Family, unix.NFT_MSG_GETTABLE, nil, func(a Attributes) {
		exists = exists || String(a[unix.NFTA_TABLE_NAME]) == t.Name
	})
	if errors.Is(err, unix.EINVAL) {
		return nil, nil // a kernel that has no nf_tables knows no such question
	}
	if err != nil || !exists {
		return nil, err
	}
	s := NewState()
	// The kernel dumps chains of all tables.
	if err := Dump(t.Family, unix.NFT_MSG_GETCHAIN, nil, func(a Attributes) {
		if String(a[unix.NFTA_CHAIN_TABLE]) == t.Name {
			s.AddChain(String(a[unix.NFTA_CHAIN_NAME]), nil)
		}
	}); err != nil {
		return nil, err
	}
	if err := Dump(t.Family, unix.NFT_MSG_GETRULE, Text(unix.NFTA_RULE_TABLE, t.Name), func(a Attributes) {
		if String(a[unix.NFTA_RULE_TABLE]) == t.Name {
			c := s.Chains[String(a[unix.NFTA_RULE_CHAIN])]
			c.prints = append(c.prints, Comment(a[unix.NFTA_RULE_USERDATA]))
			s.Chains[c.Name] = c
		}
	}); err != nil {
		return nil, err
	}
	if err := Dump(t.Family, unix.NFT_MSG_GETSET, Text(unix.NFTA_SET_TABLE, t.Name), func(a Attributes) {
		if String(a[unix.NFTA_SET_TABLE]) == t.Name {
			s.AddSet(setOf(a))
		}
	}); err != nil {
		return nil, err
	}
	return s, t.readElements(s)
}

// setOf is a set as far as it has to be known of one that is there.
func setOf(a Attributes) Set {
	v := Set{Name: String(a[unix.NFTA_SET_NAME])}
	if t := a[unix.NFTA_SET_TIMEOUT]; len(t) == 8 {
		v.Seconds = uint32(binary.BigEndian.Uint64(t) / 1000)
	}
	if f := a[unix.NFTA_SET_FLAGS]; len(f) == 4 {
		v.Interval = binary.BigEndian.Uint32(f)&unix.NFT_SET_INTERVAL != 0
	}
	return v
}

func (t *Table) readElements(s *State) error {
	for name, v := range s.Sets {
		if v.dynamic() {
			continue
		}
		of := append(Text(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name), Text(unix.NFTA_SET_ELEM_LIST_SET, name)...)
		err := Dump(t.Family, unix.NFT_MSG_GETSETELEM, of, func(a Attributes) {
			ForEach(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, item []byte) { s.readElement(name, item) })
		})
		if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: it is gone meanwhile
			return err
		}
	}
	return nil
}

// readElement adds an element as the kernel shows it.
func (s *State) readElement(set string, item []byte) {
	a := Parse(item)
	of := Parse(a[unix.NFTA_SET_ELEM_DATA])
	d := Data{Value: string(of[unix.NFTA_DATA_VALUE])}
	if v := Parse(of[unix.NFTA_DATA_VERDICT]); len(v) > 0 {
		d.Chain = String(v[unix.NFTA_VERDICT_CHAIN])
	}
	key := Key{Bytes: string(Parse(a[unix.NFTA_SET_ELEM_KEY])[unix.NFTA_DATA_VALUE])}
	if flags := a[unix.NFTA_SET_ELEM_FLAGS]; len(flags) == 4 {
		key.End = binary.BigEndian.Uint32(flags)&elementEnd != 0
	}
	s.AddElement(set, key, d)
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// chain is a chain with its content.
type chain struct {
	name string
	// hook makes it a base chain; nil for one that others lead to.
	hook  *hook
	rules []rule
	// prints are by which the rules are known again in the kernel.
	prints []string
}

// hook is where the kernel calls a base chain.
type hook struct {
	kind     string // filter or nat
	number   uint32
	priority int32
}

// set is a set or map without its elements.
type set struct {
	name                 string
	keyType, keyLength   uint32
	dataType, dataLength uint32 // of a map; verdicts have no length
	// seconds that an element of a set lasts which packets fill themselves; 0 for all others.
	seconds uint32
}

func (s set) dynamic() bool { return s.seconds != 0 }

// elements are those of a set by key.
type elements map[string]data

// data is what a map has for a key: a chain to go to or a value; a set has neither.
type data struct{ chain, value string }

// state is a table, or a part of it.
type state struct {
	chains map[string]chain
	sets   map[string]set
	// elements by the name of the set. They may be there without the set, which is of another part then.
	elements map[string]elements
}

func newState() *state {
	return &state{chains: map[string]chain{}, sets: map[string]set{}, elements: map[string]elements{}}
}

func (s *state) addChain(name string, h *hook, rules ...rule) {
	c := chain{name: name, hook: h, rules: rules}
	for _, r := range rules {
		sum := sha256.Sum256(r)
		c.prints = append(c.prints, base32.StdEncoding.EncodeToString(sum[:])[:16])
	}
	s.chains[name] = c
}

func (s *state) addSet(v set) { s.sets[v.name] = v }

func (s *state) addElement(set, key string, d data) {
	if s.elements[set] == nil {
		s.elements[set] = elements{}
	}
	s.elements[set][key] = d
}

// merge adds what another part has.
func (s *state) merge(o *state) {
	maps.Copy(s.chains, o.chains)
	maps.Copy(s.sets, o.sets)
	for name, list := range o.elements {
		for key, d := range list {
			s.addElement(name, key, d)
		}
	}
}

// equal tells whether the kernel's state is as wanted.
func (s *state) equal(want *state) bool {
	if len(s.chains) != len(want.chains) || len(s.sets) != len(want.sets) {
		return false
	}
	for name, c := range want.chains {
		if have, ok := s.chains[name]; !ok || !slices.Equal(have.prints, c.prints) {
			return false
		}
	}
	for name := range want.sets {
		if _, ok := s.sets[name]; !ok || !maps.Equal(s.elements[name], want.elements[name]) {
			return false
		}
	}
	return true
}

// plan adds to the transaction what leads from one state to another. What is referred to is made before the reference, and removed
// after it.
func (b *batch) plan(have, want *state) {
	for name, v := range want.sets {
		if _, ok := have.sets[name]; !ok {
			b.addSet(v)
		}
	}
	for name, c := range want.chains {
		if _, ok := have.chains[name]; !ok {
			b.addChain(c)
		}
	}
	gone := func(set string) bool {
		_, had := have.sets[set]
		_, has := want.sets[set]
		return had && !has
	}
	for name, list := range have.elements {
		if !gone(name) {
			b.elements(unix.NFT_MSG_DELSETELEM, name, differing(list, want.elements[name]))
		}
	}
	for name, list := range want.elements {
		b.elements(unix.NFT_MSG_NEWSETELEM, name, differing(list, have.elements[name]))
	}
	for name, c := range want.chains {
		before := have.chains[name].prints
		if slices.Equal(before, c.prints) {
			continue
		}
		if len(before) > 0 {
			b.flush(name)
		}
		for i, r := range c.rules {
			b.addRule(name, r, c.prints[i])
		}
	}
	var chains []string
	for name := range have.chains {
		if _, ok := want.chains[name]; !ok {
			b.flush(name)
			chains = append(chains, name)
		}
	}
	for name := range have.sets {
		if gone(name) {
			b.deleteSet(name)
		}
	}
	for _, name := range chains {
		b.deleteChain(name)
	}
}

// differing are the elements of one that the other has not, or has otherwise.
func differing(of, in elements) elements {
	out := elements{}
	for key, d := range of {
		if other, ok := in[key]; !ok || other != d {
			out[key] = d
		}
	}
	return out
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"slices"
)

// Chain is a chain with its content.
type Chain struct {
	Name string
	// Hook makes it a base chain; nil for one that others lead to.
	Hook  *Hook
	Rules []Rule
	// prints are by which the rules are known again in the kernel.
	prints []string
}

// Hook is where the kernel calls a base chain.
type Hook struct {
	// Kind is filter or nat.
	Kind     string
	Number   uint32
	Priority int32
}

// Set is a set or map without its elements.
type Set struct {
	Name               string
	KeyType, KeyLength uint32
	// DataType and DataLength are those of a map; verdicts have no length.
	DataType, DataLength uint32
	// Seconds that an element of a set lasts which packets fill themselves; 0 for all others.
	Seconds uint32
	// Interval says that the elements are begins and ends of ranges.
	Interval bool
}

func (s Set) dynamic() bool { return s.Seconds != 0 }

// Key is where an element of a set is. End tells that no range goes on there.
type Key struct {
	Bytes string
	End   bool
}

// Data is what a map has for a key: a chain to go to or a value; a set has neither.
type Data struct{ Chain, Value string }

// Elements are those of a set.
type Elements map[Key]Data

// State is a table, or a part of it.
type State struct {
	Chains map[string]Chain
	Sets   map[string]Set
	// Elements by the name of the set. They may be there without the set, which is of another part then.
	Elements map[string]Elements
}

// NewState returns an empty one.
func NewState() *State {
	return &State{Chains: map[string]Chain{}, Sets: map[string]Set{}, Elements: map[string]Elements{}}
}

// AddChain adds a chain with its whole content.
func (s *State) AddChain(name string, h *Hook, rules ...Rule) {
	c := Chain{Name: name, Hook: h, Rules: rules}
	for _, r := range rules {
		sum := sha256.Sum256(r)
		c.prints = append(c.prints, base32.StdEncoding.EncodeToString(sum[:])[:16])
	}
	s.Chains[name] = c
}

// AddSet adds a set that has no elements yet.
func (s *State) AddSet(v Set) { s.Sets[v.Name] = v }

// AddElement adds an element, in place of what the set has there.
func (s *State) AddElement(set string, key Key, d Data) {
	if s.Elements[set] == nil {
		s.Elements[set] = Elements{}
	}
	s.Elements[set][key] = d
}

// Merge adds what another part has.
func (s *State) Merge(o *State) {
	maps.Copy(s.Chains, o.Chains)
	maps.Copy(s.Sets, o.Sets)
	for name, list := range o.Elements {
		for key, d := range list {
			s.AddElement(name, key, d)
		}
	}
}

// Equal tells whether the kernel's state is as wanted. What packets have put into sets does not count.
func (s *State) Equal(want *State) bool {
	if len(s.Chains) != len(want.Chains) || len(s.Sets) != len(want.Sets) {
		return false
	}
	for name, c := range want.Chains {
		if have, ok := s.Chains[name]; !ok || !slices.Equal(have.prints, c.prints) {
			return false
		}
	}
	for name := range want.Sets {
		if _, ok := s.Sets[name]; !ok || !maps.Equal(s.Elements[name], want.Elements[name]) {
			return false
		}
	}
	return true
}

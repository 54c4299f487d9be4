// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ranges hands out numbers from a range, each to one owner, over all API servers of a cluster: the taken ones are
// a single object in etcd that is only replaced by compare-and-swap. IPs and node ports are kept this way. Touch it when
// the way they are remembered or repaired changes.
package ranges

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Set is a set of offsets into a range, sorted. It is never changed in place.
type Set []uint64

// decodeSet reads what encode wrote.
func decodeSet(data []byte) (Set, error) {
	var s Set
	last := uint64(0)
	for len(data) > 0 {
		step, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, fmt.Errorf("allocation data is corrupt")
		}
		last += step
		s = append(s, last)
		data = data[n:]
	}
	return s, nil
}

// encode writes the distances between members, so that even a huge range costs two or three bytes for each taken one.
func (s Set) encode() []byte {
	var out []byte
	last := uint64(0)
	for _, o := range s {
		out = binary.AppendUvarint(out, o-last)
		last = o
	}
	return out
}

// NewSet returns the set of the offsets.
func NewSet(offsets ...uint64) Set {
	s := slices.Clone(offsets)
	slices.Sort(s)
	return slices.Compact(s)
}

// Has tells whether the offset is taken.
func (s Set) Has(offset uint64) bool {
	_, found := slices.BinarySearch(s, offset)
	return found
}

func (s Set) with(offset uint64) Set {
	i, found := slices.BinarySearch(s, offset)
	if found {
		return s
	}
	return slices.Insert(slices.Clone(s), i, offset)
}

func (s Set) without(offsets ...uint64) Set {
	return slices.DeleteFunc(slices.Clone(s), func(o uint64) bool { return slices.Contains(offsets, o) })
}

// pick chooses a free offset: at random from [reserved, size), and only if that is full from [0, reserved), which is
// meant for those who ask for a certain one (KEP-3070, KEP-3668).
func (s Set) pick(size, reserved uint64) (uint64, bool) {
	if o, ok := s.pickBetween(reserved, size); ok {
		return o, true
	}
	return s.pickBetween(0, reserved)
}

// pickBetween finds the n-th free offset of [low, high) for a random n.
func (s Set) pickBetween(low, high uint64) (uint64, bool) {
	from, _ := slices.BinarySearch(s, low)
	to, _ := slices.BinarySearch(s, high)
	taken := s[from:to]
	if low >= high || uint64(len(taken)) >= high-low {
		return 0, false
	}
	o := low + rand.Uint64N(high-low-uint64(len(taken)))
	for _, t := range taken {
		if t > o {
			break
		}
		o++
	}
	return o, true
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ranges hands out numbers from a range, each to one owner, over all API servers of a cluster: the taken ones are
// a single object in etcd that is only replaced by compare-and-swap. Node ports are kept this way, under upstream's key and in
// upstream's encoding. Touch it when the way they are remembered or repaired changes.
package ranges

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Set is a set of offsets into a range, sorted. It is never changed in place.
type Set []uint64

// decodeSet reads what encode wrote.
func decodeSet(data []byte) Set {
	var s Set
	for i, b := range slices.Backward(data) {
		base := uint64(len(data)-1-i) * 8
		for ; b != 0; b &= b - 1 {
			s = append(s, base+uint64(bits.TrailingZeros8(b)))
		}
	}
	return s
}

// encode writes the set as upstream's API servers do, so that each can go on with what the other has stored: a number whose
// bits are the members, the most significant byte first.
func (s Set) encode() []byte {
	if len(s) == 0 {
		return nil
	}
	data := make([]byte, s[len(s)-1]/8+1)
	for _, o := range s {
		data[len(data)-1-int(o/8)] |= 1 << (o % 8)
	}
	return data
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

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ranges

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSet_RoundTrip(t *testing.T) {
	for _, s := range []Set{nil, {0}, {7}, {8}, {0, 1, 300, 65535}} {
		data := s.encode()
		if got := decodeSet(data); !cmp.Equal(s, got) {
			t.Errorf("%v became %v", s, got)
		}
		// What upstream writes: the bytes of a number with these bits.
		var upstream big.Int
		for _, o := range s {
			upstream.SetBit(&upstream, int(o), 1)
		}
		if !bytes.Equal(data, upstream.Bytes()) {
			t.Errorf("%v is written as %x, upstream writes %x", s, data, upstream.Bytes())
		}
	}
	if got := decodeSet([]byte{0, 0, 5}); !cmp.Equal(got, Set{0, 2}) {
		t.Errorf("leading zeros: %v", got)
	}
}

func TestSet_Pick(t *testing.T) {
	const size, reserved = 40, 8
	var s Set
	for i := range size {
		o, ok := s.pick(size, reserved)
		if !ok || s.Has(o) || o >= size {
			t.Fatalf("pick %d: %d, %v", i, o, ok)
		}
		if early := i < size-reserved; early != (o >= reserved) {
			t.Fatalf("pick %d is %d: the reserved part comes last", i, o)
		}
		s = s.with(o)
	}
	if o, ok := s.pick(size, reserved); ok {
		t.Errorf("picked %d from a full range", o)
	}
	if s = s.without(3, 5); !cmp.Equal(len(s), size-2) || s.Has(3) {
		t.Errorf("set = %v", s)
	}
}

func TestReconcile(t *testing.T) {
	leaks := Leaks{}
	stored, used := NewSet(1, 2), NewSet(2, 3)
	for round := 1; round <= 3; round++ {
		out, took, freed, next := reconcile(stored, used, leaks)
		switch {
		case round == 1 && !cmp.Equal(took, Set{3}):
			t.Errorf("round 1 took %v, want what a service holds", took)
		case round < 3 && (freed != nil || !cmp.Equal(out, Set{1, 2, 3})):
			t.Errorf("round %d: %v, freed %v; a service may be about to be stored", round, out, freed)
		case round == 3 && (!cmp.Equal(freed, Set{1}) || !cmp.Equal(out, Set{2, 3})):
			t.Errorf("round 3: %v, freed %v", out, freed)
		}
		stored, leaks = out, next
	}
}

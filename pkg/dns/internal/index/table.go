// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"hash/maphash"
	"maps"
)

const (
	pages   = 64
	perPage = 64
)

// seed is the same for all states: they share parts.
var seed = maphash.MakeSeed()

// table is a map that is never changed: an edit of it copies the parts of it that change, and shares the others.
type table[K comparable, V any] [pages]*page[K, V]

type page[K comparable, V any] [perPage]map[K]V

func place[K comparable](key K) (int, int) {
	h := maphash.Comparable(seed, key)
	return int(h % pages), int(h / pages % perPage)
}

func (t *table[K, V]) get(key K) V {
	i, j := place(key)
	if t[i] == nil {
		var none V
		return none
	}
	return t[i][j][key]
}

// edit makes the next state of a table.
type edit[K comparable, V any] struct {
	table table[K, V]
	// ours are the parts that were copied already.
	pages map[int]bool
	maps  map[int]bool
}

func (t *table[K, V]) edit() *edit[K, V] {
	return &edit[K, V]{table: *t, pages: map[int]bool{}, maps: map[int]bool{}}
}

func (e *edit[K, V]) get(key K) V { return e.table.get(key) }

func (e *edit[K, V]) set(key K, value V, remove bool) {
	i, j := place(key)
	if !e.pages[i] {
		e.pages[i] = true
		fresh := new(page[K, V])
		if e.table[i] != nil {
			*fresh = *e.table[i]
		}
		e.table[i] = fresh
	}
	if at := i*perPage + j; !e.maps[at] {
		e.maps[at] = true
		e.table[i][j] = maps.Clone(e.table[i][j])
	}
	if remove {
		delete(e.table[i][j], key)
		return
	}
	if e.table[i][j] == nil {
		e.table[i][j] = map[K]V{}
	}
	e.table[i][j][key] = value
}

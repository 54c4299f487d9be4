// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lists

import (
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Bounds of a Cache.
const (
	// maxBytes is how much is kept. What is beyond is encoded each time, one item after the other, rather than in place of something else: lists are read from
	// the first to the last item, so that what was put in for the last would have put out what is asked for next.
	maxBytes = 64 << 20
	// idle is how long, at least, and half of how long at most something is kept that no list has.
	idle = 30 * time.Second
)

// Cache keeps items as they were encoded. Its methods are safe for concurrent use. It keeps nothing of what nobody has asked for lately.
type Cache struct {
	bound int // in bytes

	mu    sync.Mutex // guards all below
	all   map[table]map[types.UID]*entry
	size  int
	round uint64 // grows with each look for what is idle
	timer *time.Timer
}

// table is the encodings of one kind: of one version, since these are types of their own.
type table struct {
	format format
	item   reflect.Type
}

// entry is what an object was encoded to in one of its versions.
type entry struct {
	version string
	data    []byte
	round   uint64 // when it was used last
}

// NewCache returns an empty one.
func NewCache() *Cache { return &Cache{bound: maxBytes, all: map[table]map[types.UID]*entry{}} }

// identity is what tells one content of an object from another: the API server changes nothing without another resourceVersion.
type identity struct {
	uid     types.UID
	version string
}

// identify returns nothing for items that are not stored, or say of which kind they are, as those of a list do not.
func identify(o runtime.Object) identity {
	m := o.(metav1.Object)
	if !o.GetObjectKind().GroupVersionKind().Empty() || m.GetUID() == "" || m.GetResourceVersion() == "" {
		return identity{}
	}
	return identity{m.GetUID(), m.GetResourceVersion()}
}

// batch is how many items are looked for at a time, so that lists that are read at the same time encode little twice.
const batch = 500

// items returns the items of a list in a format as far as they are kept, or are so from now on: nil for those beyond the bound.
func (c *Cache) items(f format, l *list) ([][]byte, error) {
	encoded := make([][]byte, len(l.items))
	for from := 0; from < len(l.items); from += batch {
		to := min(from+batch, len(l.items))
		if err := c.some(table{f, l.item}, l.items[from:to], encoded[from:to]); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}

// some fills encoded with what is known of items, and with others as long as there is room for them.
func (c *Cache) some(t table, items []runtime.Object, encoded [][]byte) error {
	ids := make([]identity, len(items))
	for i, o := range items {
		ids[i] = identify(o)
	}
	room := c.find(t, ids, encoded)
	var fresh []int
	for i, o := range items {
		if encoded[i] != nil || room <= 0 || ids[i] == (identity{}) {
			continue
		}
		var err error
		if encoded[i], err = t.format.item(o); err != nil {
			return err
		}
		fresh = append(fresh, i)
		room -= cost(encoded[i])
	}
	c.keep(t, ids, encoded, fresh)
	return nil
}

// find returns how much may be kept besides.
func (c *Cache) find(t table, ids []identity, encoded [][]byte) (room int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.all[t]
	for i, id := range ids {
		if e := kept[id.uid]; e != nil && e.version == id.version {
			encoded[i], e.round = e.data, c.round
		}
	}
	return c.bound - c.size
}

// keep takes those of encoded that fresh names.
func (c *Cache) keep(t table, ids []identity, encoded [][]byte, fresh []int) {
	if len(fresh) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.all[t]
	if kept == nil {
		kept = map[types.UID]*entry{}
		c.all[t] = kept
	}
	for _, i := range fresh {
		before := 0
		if e := kept[ids[i].uid]; e != nil {
			before = cost(e.data)
		}
		if c.size-before+cost(encoded[i]) > c.bound {
			continue
		}
		c.size += cost(encoded[i]) - before
		kept[ids[i].uid] = &entry{ids[i].version, encoded[i], c.round}
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(idle, c.sweep)
	}
}

// cost is how much is taken by an item that is kept, with what leads to it.
func cost(encoded []byte) int { return cap(encoded) + 200 }

// sweep removes what no list has had since the last sweep, and comes again as long as there is something.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, kept := range c.all {
		for uid, e := range kept {
			if e.round < c.round {
				c.size -= cost(e.data)
				delete(kept, uid)
			}
		}
		if len(kept) == 0 {
			delete(c.all, t)
		}
	}
	c.round++
	if c.timer = nil; len(c.all) > 0 {
		c.timer = time.AfterFunc(idle, c.sweep)
	}
}

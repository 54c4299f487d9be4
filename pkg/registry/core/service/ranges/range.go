// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ranges

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	"minik8s.io/minik8s/pkg/registry"
)

// ErrTaken means that the offset belongs to somebody else, ErrFull that no free one is left.
var (
	ErrTaken = errors.New("already allocated")
	ErrFull  = errors.New("range is full")
)

// allocations are stored as /ranges/NAME, where upstream keeps its own; they are not served.
var allocations = &registry.Resource[*corev1.RangeAllocation]{
	Kind:          corev1.SchemeGroupVersion.WithKind("RangeAllocation"),
	Name:          "ranges",
	ClusterScoped: true,
	New:           func() *corev1.RangeAllocation { return &corev1.RangeAllocation{} },
	NewList:       func() runtime.Object { return &allocationList{} },
}

// allocationList is what the watch cache lists; the API has no such kind.
type allocationList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []corev1.RangeAllocation
}

// DeepCopyObject implements runtime.Object.
func (l *allocationList) DeepCopyObject() runtime.Object {
	out := &allocationList{TypeMeta: l.TypeMeta, Items: make([]corev1.RangeAllocation, len(l.Items))}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// Store keeps allocations.
type Store struct {
	store *genericregistry.Store
}

// NewStore returns the store of all ranges.
func NewStore(c registry.Config) (*Store, error) {
	all, err := allocations.Storage(c)
	if err != nil {
		return nil, err
	}
	return FromStore(all[allocations.Name].(*registry.Store[*corev1.RangeAllocation]).Store), nil
}

// FromStore wraps the store that a NewStore has built before.
func FromStore(store *genericregistry.Store) *Store { return &Store{store: store} }

// Destroy ends the store's watches.
func (s *Store) Destroy() { s.store.Destroy() }

// Range is one range of numbers. Its methods are safe for concurrent use; it must not be copied then.
type Range struct {
	// Name is the key of the stored object.
	Name string
	// Spec describes the range ("10.96.0.0/16"). What was stored for another one is void.
	Spec string
	// Size is how many numbers there are, Reserved how many at the beginning are given out last.
	Size, Reserved uint64
	// Used lists the offsets that existing objects hold: the truth that a lost or void allocation is rebuilt from.
	Used func(ctx context.Context) (Set, error)
	// Store keeps the allocation.
	Store *Store

	queue queue
}

// Take takes a certain offset. It fails with ErrTaken.
func (r *Range) Take(ctx context.Context, offset uint64, dryRun bool) error {
	return r.change(ctx, dryRun, func(s Set) (Set, error) {
		if s.Has(offset) {
			return nil, ErrTaken
		}
		return s.with(offset), nil
	})
}

// TakeAny takes n free offsets other than those of except, all of them or none. It fails with ErrFull.
func (r *Range) TakeAny(ctx context.Context, n int, except Set, dryRun bool) ([]uint64, error) {
	var chosen []uint64
	err := r.change(ctx, dryRun, func(s Set) (Set, error) {
		full := NewSet(slices.Concat(s, except)...)
		picked := make([]uint64, 0, n)
		for range n {
			o, ok := full.pick(r.Size, r.Reserved)
			if !ok {
				return nil, ErrFull
			}
			full, picked = full.with(o), append(picked, o)
		}
		chosen = picked
		return NewSet(slices.Concat(s, picked)...), nil
	})
	if err != nil {
		return nil, err // chosen may be written still if ctx has ended
	}
	return chosen, nil
}

// Free gives offsets back. Free ones are ignored.
func (r *Range) Free(ctx context.Context, offsets ...uint64) error {
	return r.change(ctx, false, func(s Set) (Set, error) { return s.without(offsets...), nil })
}

// Taken returns what is taken at the moment.
func (r *Range) Taken(ctx context.Context) (Set, error) {
	var out Set
	err := r.update(ctx, true, func(s Set) (Set, error) { out = s; return s, nil })
	return out, err
}

// change replaces the set, together with the other changes that are asked for at the moment.
func (r *Range) change(ctx context.Context, dryRun bool, change func(Set) (Set, error)) error {
	if dryRun { // writes nothing, so it is in nobody's way
		return r.update(ctx, true, change)
	}
	return r.queue.do(ctx, change, func(ctx context.Context, all func(Set) (Set, error)) error { return r.update(ctx, false, all) })
}

// update replaces the set; change runs again if another server was faster, so it must not keep state.
func (r *Range) update(ctx context.Context, dryRun bool, change func(Set) (Set, error)) error {
	store := r.Store.store
	key, err := store.KeyFunc(ctx, r.Name)
	if err != nil {
		return err
	}
	return store.Storage.GuaranteedUpdate(ctx, key, &corev1.RangeAllocation{}, true, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			a := obj.(*corev1.RangeAllocation)
			old, err := r.current(ctx, a)
			if err != nil {
				return nil, err
			}
			changed, err := change(old)
			if err != nil {
				return nil, err
			}
			a.Name, a.Range, a.Data = "", r.Spec, changed.encode()
			return a, nil
		}), dryRun, nil)
}

// current reads the stored set, or rebuilds it if there is none for this range. Upstream's have no name; in those that have
// one, this program kept the set in another encoding once.
func (r *Range) current(ctx context.Context, a *corev1.RangeAllocation) (Set, error) {
	if a.Range != r.Spec || a.Name != "" {
		return r.Used(ctx)
	}
	return decodeSet(a.Data), nil
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Stores returns the stores of a kind. Those of one representation (typed, metadata or unstructured) are a group: an object
// belongs into no more than one of them, and each group has to have what was written, whichever way it was.
type Stores interface {
	Of(schema.GroupVersionKind) [][]Store
}

// Store is what has to be known of an informer's toolscache.Store.
type Store interface {
	// GetByKey returns the object of that namespace and name.
	GetByKey(key string) (obj any, exists bool, err error)
	// LastStoreSyncResourceVersion returns how far the store has got: by events, by a list or by bookmarks. Empty before the
	// first list.
	LastStoreSyncResourceVersion() string
}

// Informers are the stores of a cache's informers. Safe for concurrent use.
type Informers struct {
	scheme *runtime.Scheme

	mu sync.RWMutex
	// kinds is guarded by mu; what is in it is replaced and not changed.
	kinds map[schema.GroupVersionKind][]group
}

// group is the stores that have objects of one representation.
type group struct {
	representation reflect.Type
	stores         []Store
}

// NewInformers returns an empty set.
func NewInformers(scheme *runtime.Scheme) *Informers {
	return &Informers{scheme: scheme, kinds: map[schema.GroupVersionKind][]group{}}
}

// Add adds the informer of objects like obj.
func (i *Informers) Add(obj runtime.Object, informer toolscache.SharedIndexInformer) error {
	gvk, err := apiutil.GVKForObject(obj, i.scheme)
	if err != nil {
		return fmt.Errorf("telling the kind of an informer: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	groups := slices.Clone(i.kinds[gvk])
	representation := reflect.TypeOf(obj)
	at := slices.IndexFunc(groups, func(g group) bool { return g.representation == representation })
	if at < 0 {
		at, groups = len(groups), append(groups, group{representation: representation})
	}
	groups[at].stores = append(slices.Clip(groups[at].stores), informer.GetStore())
	i.kinds[gvk] = groups
	return nil
}

// Of implements Stores. A kind that nobody caches has none.
func (i *Informers) Of(gvk schema.GroupVersionKind) [][]Store {
	i.mu.RLock()
	groups := i.kinds[gvk]
	i.mu.RUnlock()
	stores := make([][]Store, len(groups))
	for n, g := range groups {
		stores[n] = g.stores
	}
	return stores
}

// isIn tells whether each group of stores has what was written.
func (w *write) isIn(groups [][]Store) bool {
	key := keyOf(w.key)
	for _, stores := range groups {
		if w.deleted != "" && slices.ContainsFunc(stores, func(s Store) bool { return hasUndeleted(s, key, w.deleted) }) {
			return false
		}
		if w.version != "" && !haveSeen(stores, key, w.version) {
			return false
		}
	}
	return true
}

// haveSeen tells whether the one of the stores that the object belongs into has got as far as version. Which one that is shows
// when it has the object; if none has, all have to be as far.
func haveSeen(stores []Store, key, version string) bool {
	isBefore := func(s Store) bool { return !atLeast(s.LastStoreSyncResourceVersion(), version) }
	if !slices.ContainsFunc(stores, isBefore) {
		return true
	}
	return len(stores) > 1 && slices.ContainsFunc(stores, func(s Store) bool {
		obj := get(s, key)
		return obj != nil && atLeast(obj.GetResourceVersion(), version)
	})
}

// hasUndeleted tells whether the store has the object with that UID as one that is not being deleted.
func hasUndeleted(s Store, key string, uid types.UID) bool {
	obj := get(s, key)
	return obj != nil && obj.GetUID() == uid && obj.GetDeletionTimestamp() == nil
}

// get returns an object, nil if there is none.
func get(s Store, key string) metav1.Object {
	found, ok, err := s.GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	obj, err := meta.Accessor(found)
	if err != nil {
		return nil
	}
	return obj
}

// atLeast tells whether a version is not before another one. The empty one is before all.
func atLeast(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order >= 0
}

// keyOf is toolscache.MetaNamespaceKeyFunc for a name.
func keyOf(name types.NamespacedName) string {
	return toolscache.NewObjectName(name.Namespace, name.Name).String()
}

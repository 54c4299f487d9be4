// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package canonical keeps in memory once what several parts of a process have in their caches: each gets the same copy of an object,
// which nobody may change, as caches of client-go demand anyway. Touch it when a kind is in many caches and not in the list, or a
// part needs of objects what is left out here.
package canonical

import (
	"fmt"
	"sync"
	"weak"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Objects are those of a cluster. The zero value has none yet. Safe for concurrent use.
type Objects struct {
	// The kinds that are shared: those of which there are many, in several caches.
	pods           table[corev1.Pod, *corev1.Pod]
	nodes          table[corev1.Node, *corev1.Node]
	namespaces     table[corev1.Namespace, *corev1.Namespace]
	services       table[corev1.Service, *corev1.Service]
	volumes        table[corev1.PersistentVolume, *corev1.PersistentVolume]
	claims         table[corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaim]
	endpointSlices table[discoveryv1.EndpointSlice, *discoveryv1.EndpointSlice]
	replicaSets    table[appsv1.ReplicaSet, *appsv1.ReplicaSet]
}

// Transform is a cache.TransformFunc: it leaves out who wrote which field, and returns the copy that another cache has, if one has
// this version. What is shared has no TypeMeta, whoever decoded it.
func (a *Objects) Transform(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return a.pods.canonical(o), nil
	case *corev1.Node:
		return a.nodes.canonical(o), nil
	case *corev1.Namespace:
		return a.namespaces.canonical(o), nil
	case *corev1.Service:
		return a.services.canonical(o), nil
	case *corev1.PersistentVolume:
		return a.volumes.canonical(o), nil
	case *corev1.PersistentVolumeClaim:
		return a.claims.canonical(o), nil
	case *discoveryv1.EndpointSlice:
		return a.endpointSlices.canonical(o), nil
	case *appsv1.ReplicaSet:
		return a.replicaSets.canonical(o), nil
	case metav1.Object:
		strip(o)
	}
	return obj, nil
}

// strip changes nothing that was stripped before: a cache may show the same object again.
func strip(o metav1.Object) {
	if len(o.GetManagedFields()) > 0 {
		o.SetManagedFields(nil)
	}
}

// object is a pointer to a kind of the API.
type object[T any] interface {
	*T
	metav1.Object
	schema.ObjectKind
	GetObjectKind() schema.ObjectKind
}

// table has the newest copy of each object of a kind, as long as somebody else has it. The zero value is empty.
type table[T any, P object[T]] struct {
	mu    sync.Mutex
	byUID map[types.UID]weak.Pointer[T] // guarded by mu
	sweep int                           // the size at which to look for copies that nobody has any more; guarded by mu
}

// leastSweep is how many entries are not worth a look.
const leastSweep = 1024

// canonical returns the copy that is shared of this version, which may become o.
func (t *table[T, P]) canonical(o P) P {
	strip(o)
	if !o.GroupVersionKind().Empty() {
		o.SetGroupVersionKind(schema.GroupVersionKind{})
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	if uid == "" || version == "" {
		return o
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := P(t.byUID[uid].Value()); have != nil {
		if have.GetResourceVersion() == version {
			if verify && !equality.Semantic.DeepEqual(have, o) {
				panic(fmt.Sprintf("somebody has changed what is shared:\n%v\nwas\n%v", have, o))
			}
			return have
		}
		// Caches that lag, and versions that are no numbers, take no part.
		if order, err := resourceversion.CompareResourceVersion(have.GetResourceVersion(), version); err != nil || order > 0 {
			return o
		}
	}
	t.put(uid, o)
	return o
}

// put keeps o; the caller holds mu.
func (t *table[T, P]) put(uid types.UID, o P) {
	if len(t.byUID) >= max(t.sweep, leastSweep) {
		for uid, p := range t.byUID {
			if p.Value() == nil {
				delete(t.byUID, uid)
			}
		}
		t.sweep = 2 * len(t.byUID)
	}
	if t.byUID == nil {
		t.byUID = map[types.UID]weak.Pointer[T]{}
	}
	t.byUID[uid] = weak.Make((*T)(o))
}

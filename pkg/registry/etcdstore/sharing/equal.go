// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"bytes"
	"maps"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Equal makes each part of to that is equal in from the same memory as there, and tells whether all of it is. Both are pointers of
// one type. Nobody may change either from then on; to must not be known to anybody else yet.
func Equal(from, to runtime.Object) bool {
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	if a.Kind() != reflect.Pointer || a.Type() != b.Type() || a.IsNil() || b.IsNil() {
		return false
	}
	return of(a.Type().Elem())(a.Elem(), b.Elem())
}

// sharer does for values of one type what Equal does for objects. The second is addressable.
type sharer func(from, to reflect.Value) bool

var known sync.Map // from reflect.Type to sharer

// of returns the sharer of a type. What pointers and slices lead to is looked up when they are followed, for types may contain themselves.
func of(t reflect.Type) sharer {
	if f, ok := known.Load(t); ok {
		return f.(sharer)
	}
	f := newSharer(t)
	known.Store(t, f)
	return f
}

func newSharer(t reflect.Type) sharer {
	switch t.Kind() {
	case reflect.Bool:
		return func(from, to reflect.Value) bool { return from.Bool() == to.Bool() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(from, to reflect.Value) bool { return from.Int() == to.Int() }
	case reflect.String:
		return shareString
	case reflect.Pointer:
		return sharePointer
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return shareBytes
		}
		return shareSlice
	case reflect.Map:
		return shareMap
	case reflect.Struct:
		return structure(t)
	default:
		return leaf
	}
}

func shareString(from, to reflect.Value) bool {
	s := from.String()
	if s != to.String() {
		return false
	}
	if s != "" {
		to.SetString(s)
	}
	return true
}

func sharePointer(from, to reflect.Value) bool {
	if from.IsNil() || to.IsNil() {
		return from.IsNil() && to.IsNil()
	}
	if !of(from.Type().Elem())(from.Elem(), to.Elem()) {
		return false
	}
	to.Set(from)
	return true
}

func shareBytes(from, to reflect.Value) bool {
	if from.IsNil() != to.IsNil() || !bytes.Equal(from.Bytes(), to.Bytes()) {
		return false
	}
	to.Set(from)
	return true
}

func shareSlice(from, to reflect.Value) bool {
	if from.IsNil() || to.IsNil() {
		return from.IsNil() && to.IsNil()
	}
	element := of(from.Type().Elem())
	equal := from.Len() == to.Len()
	for i := range min(from.Len(), to.Len()) {
		if !element(from.Index(i), to.Index(i)) {
			equal = false
		}
	}
	if !equal {
		return false
	}
	to.Set(from)
	to.SetCap(to.Len()) // who appends to one must not write into the other
	return true
}

// shareMap shares maps as a whole: what is in them has no address.
func shareMap(from, to reflect.Value) bool {
	if from.IsNil() != to.IsNil() || from.Len() != to.Len() || !equalMaps(from, to) {
		return false
	}
	to.Set(from)
	return true
}

func equalMaps(from, to reflect.Value) bool {
	switch a := from.Interface().(type) {
	case map[string]string:
		return maps.Equal(a, to.Interface().(map[string]string))
	case corev1.ResourceList: // quantities that are too large for an int64 are never equal
		return maps.Equal(a, to.Interface().(corev1.ResourceList))
	default:
		return reflect.DeepEqual(a, to.Interface())
	}
}

// leaf compares what has no parts that could be shared, or hides them.
func leaf(from, to reflect.Value) bool {
	return from.Comparable() && from.Equal(to)
}

func structure(t reflect.Type) sharer {
	fields := make([]sharer, t.NumField())
	for i := range fields {
		if !t.Field(i).IsExported() {
			return leaf
		}
		fields[i] = of(t.Field(i).Type)
	}
	return func(from, to reflect.Value) bool {
		equal := true
		for i, f := range fields {
			if !f(from.Field(i), to.Field(i)) {
				equal = false
			}
		}
		return equal
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package interning keeps in memory once what is equal in objects of the API. Touch it when a kind takes too much memory.
package interning

import (
	"bytes"
	"maps"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Share makes each part of to that is equal in from the same memory as there. Both are pointers of one type. Nobody may change either
// from then on, and to must not be known to anybody else yet.
func Share(from, to runtime.Object) { compare(from, to, true) }

// Equal tells whether all of two objects is equal. It changes nothing.
func Equal(a, b runtime.Object) bool { return compare(a, b, false) }

func compare(from, to runtime.Object, share bool) bool {
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	if a.Kind() != reflect.Pointer || a.Type() != b.Type() || a.IsNil() || b.IsNil() {
		return false
	}
	return of(a.Type().Elem())(a.Elem(), b.Elem(), share)
}

// comparer tells whether values of its type are equal. To share, it makes what is equal in the second, which is addressable, the same
// memory as in the first; else it may stop at the first difference.
type comparer func(from, to reflect.Value, share bool) bool

var known sync.Map // from reflect.Type to comparer

// of returns the comparer of a type. What pointers and slices lead to is looked up when they are followed, for types may contain themselves.
func of(t reflect.Type) comparer {
	if f, ok := known.Load(t); ok {
		return f.(comparer)
	}
	f := newComparer(t)
	known.Store(t, f)
	return f
}

func newComparer(t reflect.Type) comparer {
	switch t.Kind() {
	case reflect.Bool:
		return func(from, to reflect.Value, _ bool) bool { return from.Bool() == to.Bool() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(from, to reflect.Value, _ bool) bool { return from.Int() == to.Int() }
	case reflect.String:
		return compareStrings
	case reflect.Pointer:
		return comparePointers
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return compareBytes
		}
		return compareSlices
	case reflect.Map:
		return compareMaps
	case reflect.Struct:
		return structure(t)
	default:
		return leaf
	}
}

func compareStrings(from, to reflect.Value, share bool) bool {
	s := from.String()
	if s != to.String() {
		return false
	}
	if share && s != "" {
		to.SetString(s)
	}
	return true
}

func comparePointers(from, to reflect.Value, share bool) bool {
	if from.IsNil() || to.IsNil() {
		return from.IsNil() && to.IsNil()
	}
	return from.Pointer() == to.Pointer() || of(from.Type().Elem())(from.Elem(), to.Elem(), share) && take(from, to, share)
}

func compareBytes(from, to reflect.Value, share bool) bool {
	return from.IsNil() == to.IsNil() && bytes.Equal(from.Bytes(), to.Bytes()) && take(from, to, share)
}

func compareSlices(from, to reflect.Value, share bool) bool {
	if from.IsNil() || to.IsNil() {
		return from.IsNil() && to.IsNil()
	}
	equal := from.Len() == to.Len()
	if !equal && !share {
		return false
	}
	if equal && from.UnsafePointer() == to.UnsafePointer() {
		return true
	}
	element := of(from.Type().Elem())
	for i := range min(from.Len(), to.Len()) {
		if !element(from.Index(i), to.Index(i), share) {
			if equal = false; !share {
				return false
			}
		}
	}
	if equal && take(from, to, share) && share {
		to.SetCap(to.Len()) // who appends to one must not write into the other
	}
	return equal
}

// compareMaps shares maps as a whole: what is in them has no address.
func compareMaps(from, to reflect.Value, share bool) bool {
	return from.IsNil() == to.IsNil() && from.Len() == to.Len() && equalMaps(from, to) && take(from, to, share)
}

// take gives to the memory of from, which is equal, if it is to share it.
func take(from, to reflect.Value, share bool) bool {
	if share {
		to.Set(from)
	}
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
func leaf(from, to reflect.Value, _ bool) bool {
	return from.Comparable() && from.Equal(to)
}

func structure(t reflect.Type) comparer {
	fields := make([]comparer, t.NumField())
	for i := range fields {
		if !t.Field(i).IsExported() {
			return leaf
		}
		fields[i] = of(t.Field(i).Type)
	}
	return func(from, to reflect.Value, share bool) bool {
		equal := true
		for i, f := range fields {
			if !f(from.Field(i), to.Field(i), share) {
				if equal = false; !share {
					return false
				}
			}
		}
		return equal
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package creates

import (
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// keys are the fields by which elements of lists are told from each other, of all kinds (x-kubernetes-list-map-keys).
var keys = []string{
	"containerPort", "device", "devicePath", "driver", "ip", "mountPath", "name", "pool", "port", "protocol", "reason", "resourceClaimName",
	"resourceID", "rule", "shareID", "status", "topologyKey", "type", "uid", "whenUnsatisfiable",
}

// leaves are types that are one field, whatever they hold.
var leaves = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[resource.Quantity](),
	reflect.TypeFor[intstr.IntOrString](),
}

// appendShape appends what the names of an object's fields follow from: which are there, the keys of maps, and what tells elements of
// lists apart; two objects of a type have the same fields if it is the same, though values differ. It returns false of an object that holds
// something whose fields are not those of its type. named: v tells elements of a list apart, or is one.
func appendShape(b []byte, v reflect.Value, named bool) ([]byte, bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0), true
		}
		return appendShape(append(b, 1), v.Elem(), named)
	case reflect.Struct:
		return appendStruct(b, v, named)
	case reflect.Slice:
		return appendSlice(b, v)
	case reflect.Map:
		return appendMap(b, v)
	case reflect.String:
		if named {
			return appendString(b, v.String()), true
		}
	case reflect.Bool: // is what it holds
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if named {
			return binary.AppendVarint(b, v.Int()), true
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		if named {
			return b, false
		}
	default:
		return b, false
	}
	return appendPresence(b, !v.IsZero()), true
}

func appendStruct(b []byte, v reflect.Value, named bool) ([]byte, bool) {
	s := structureOf(v.Type())
	switch {
	case s.leaf && !named:
		return appendPresence(b, !v.IsZero()), true
	case s.leaf:
		port, ok := reflect.TypeAssert[intstr.IntOrString](v)
		return appendString(appendPresence(b, port.Type == intstr.String), port.String()), ok
	case s.opaque:
		return b, false
	}
	var ok bool
	for i, key := range s.keys {
		if b, ok = appendShape(b, v.Field(i), named && key); !ok {
			return b, false
		}
	}
	return b, true
}

func appendSlice(b []byte, v reflect.Value) ([]byte, bool) {
	b = appendPresence(b, !v.IsNil())
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return appendPresence(b, v.Len() > 0), true
	}
	b = binary.AppendUvarint(b, uint64(v.Len()))
	var ok bool
	for i := range v.Len() {
		if b, ok = appendShape(b, v.Index(i), true); !ok {
			return b, false
		}
	}
	return b, true
}

func appendMap(b []byte, v reflect.Value) ([]byte, bool) {
	if v.Type().Key().Kind() != reflect.String {
		return b, false
	}
	b = appendPresence(b, !v.IsNil())
	b = binary.AppendUvarint(b, uint64(v.Len()))
	if v.Len() == 0 {
		return b, true
	}
	names := v.MapKeys()
	slices.SortFunc(names, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	var ok bool
	for _, name := range names {
		if b, ok = appendShape(appendString(b, name.String()), v.MapIndex(name), false); !ok {
			return b, false
		}
	}
	return b, true
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendPresence(b []byte, present bool) []byte {
	if present {
		return append(b, 1)
	}
	return append(b, 0)
}

// structure is what matters of a struct's type.
type structure struct {
	leaf, opaque bool
	keys         []bool // of each field: whether it tells elements of a list apart, or holds such fields
}

// structures are those that structureOf has looked at.
var structures sync.Map

func structureOf(t reflect.Type) *structure {
	if s, found := structures.Load(t); found {
		return s.(*structure)
	}
	s := newStructure(t)
	structures.Store(t, s)
	return s
}

func newStructure(t reflect.Type) *structure {
	marshaler := reflect.TypeFor[json.Marshaler]()
	switch {
	case slices.Contains(leaves, t):
		return &structure{leaf: true}
	case t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler):
		return &structure{opaque: true}
	}
	s := &structure{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		s.opaque = s.opaque || !field.IsExported()
		s.keys = append(s.keys, name == "" || slices.Contains(keys, name))
	}
	return s
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package lists writes lists of built-in kinds from what their items were encoded to before: who asks for all pods twice has those
// that did not change meanwhile encoded once. Touch it when lists take long, or when the encodings of k8s.io/apimachinery change.
package lists

import (
	"io"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// few is how many items a list has that is not worth the search.
const few = 8

// Encoders returns codecs whose lists are, byte by byte, what they were, and made of what cache has.
func Encoders(codecs runtime.NegotiatedSerializer, cache *Cache) runtime.NegotiatedSerializer {
	return encoders{codecs, cache}
}

type encoders struct {
	runtime.NegotiatedSerializer
	cache *Cache
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (e encoders) EncoderForVersion(base runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	if f := formatOf(base); f != nil {
		base = encoder{base, f, e.cache}
	}
	return e.NegotiatedSerializer.EncoderForVersion(base, gv)
}

// encoder writes lists in one format, and leaves all else to another encoder.
type encoder struct {
	runtime.Encoder
	format format
	cache  *Cache
}

var _ runtime.EncoderWithAllocator = encoder{}

// Encode implements runtime.Encoder.
func (e encoder) Encode(obj runtime.Object, w io.Writer) error {
	if l := listOf(obj); l != nil {
		return e.encode(l, w)
	}
	return e.Encoder.Encode(obj, w)
}

// EncodeWithAllocator implements runtime.EncoderWithAllocator.
func (e encoder) EncodeWithAllocator(obj runtime.Object, w io.Writer, memory runtime.MemoryAllocator) error {
	if l := listOf(obj); l != nil {
		return e.encode(l, w)
	}
	if base, ok := e.Encoder.(runtime.EncoderWithAllocator); ok {
		return base.EncodeWithAllocator(obj, w, memory)
	}
	return e.Encoder.Encode(obj, w)
}

func (e encoder) encode(l *list, w io.Writer) error {
	encoded, err := e.cache.items(e.format, l)
	if err != nil {
		return err
	}
	out := buffers.Get().(*buffer)
	defer buffers.Put(out)
	out.reset(w)
	if err := e.format.list(l, encoded, out); err != nil {
		return err
	}
	return out.flush()
}

// list is one whose items may be known.
type list struct {
	kind  metav1.TypeMeta
	meta  metav1.ListMeta
	item  reflect.Type
	items []runtime.Object
}

// listOf returns nil if it is none, or too short.
func listOf(obj runtime.Object) *list {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() || !isList(v.Type().Elem()) {
		return nil
	}
	v = v.Elem()
	if v.Field(2).Len() < few {
		return nil
	}
	items, err := meta.ExtractList(obj)
	if err != nil {
		return nil
	}
	return &list{
		kind: v.Field(0).Interface().(metav1.TypeMeta), meta: v.Field(1).Interface().(metav1.ListMeta),
		item: v.Type().Field(2).Type.Elem(), items: items,
	}
}

// known are the types that isList has looked at.
var known sync.Map

// isList tells whether a type has the shape of all lists of the API: what its encodings are is only known of that.
func isList(t reflect.Type) bool {
	if is, found := known.Load(t); found {
		return is.(bool)
	}
	is := looksLikeList(t)
	known.Store(t, is)
	return is
}

func looksLikeList(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.NumField() != 3 {
		return false
	}
	kind, meta, items := t.Field(0), t.Field(1), t.Field(2)
	inline, tagged := kind.Tag.Lookup("json")
	if kind.Type != reflect.TypeFor[metav1.TypeMeta]() || !kind.Anonymous || !tagged || inline != "" && inline != ",inline" ||
		meta.Type != reflect.TypeFor[metav1.ListMeta]() || meta.Tag.Get("json") != "metadata,omitempty" || meta.Tag.Get("protobuf") != "bytes,1,opt,name=metadata" ||
		items.Type.Kind() != reflect.Slice || items.Tag.Get("json") != "items" || items.Tag.Get("protobuf") != "bytes,2,rep,name=items" {
		return false
	}
	item := items.Type.Elem()
	first, found := item.FieldByName("TypeMeta")
	return item.Kind() == reflect.Struct && found && first.Anonymous && first.Type == kind.Type && reflect.PointerTo(item).Implements(reflect.TypeFor[object]())
}

// object is an item.
type object interface {
	runtime.Object
	metav1.Object
	message
}

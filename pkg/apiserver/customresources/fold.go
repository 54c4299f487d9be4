// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"hash/maphash"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// folding is a codec that folds the definitions that the watch cache keeps; what their versions have in common they share there.
type folding struct{ apiruntime.Codec }

// Decode implements runtime.Decoder. What is decoded into an object belongs to its owner, who may change it. Only what is watched is
// folded: nobody changes that.
func (f folding) Decode(data []byte, defaults *schema.GroupVersionKind, into apiruntime.Object) (apiruntime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := f.Codec.Decode(data, defaults, into)
	if d, ok := obj.(*apiextensions.CustomResourceDefinition); ok && err == nil && into == nil {
		fold(&d.Spec)
	}
	return obj, kind, err
}

// foldKept folds the definitions that informers keep. Nobody may change those.
func foldKept(obj any) (any, error) {
	if d, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		fold(&d.Spec)
	}
	return obj, nil
}

// fold makes what is equal within a value the same memory: pointers, maps, slices and strings. Nobody may change the value
// later. Schemas have the same parts again and again, from version to version and in one: about half of those of the
// Gateway API and of Prometheus.
func fold[T any](value *T) {
	f := folder{seed: maphash.MakeSeed(), known: map[uint64][]reflect.Value{}}
	f.walk(reflect.ValueOf(value).Elem())
}

// folder knows the parts of a value that were seen, by their hash.
type folder struct {
	seed  maphash.Seed
	known map[uint64][]reflect.Value
}

// walk folds what v, which can be set, consists of, and then v itself. It returns a hash: equal values have equal ones.
func (f *folder) walk(v reflect.Value) uint64 {
	hash := maphash.Comparable(f.seed, v.Type())
	mix := func(h uint64) { hash = hash*31 + h }
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				mix(f.walk(field))
			}
		}
		return hash
	case reflect.Array, reflect.Interface:
		return hash // nothing to gain
	case reflect.Pointer:
		if v.IsNil() {
			return hash
		}
		mix(f.walk(v.Elem()))
	case reflect.Slice:
		if v.Len() == 0 {
			return hash
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			mix(maphash.Bytes(f.seed, v.Bytes()))
			break
		}
		for i := range v.Len() {
			mix(f.walk(v.Index(i)))
		}
	case reflect.Map:
		if v.Len() == 0 {
			return hash
		}
		var sum uint64 // whatever the order
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			sum += maphash.Comparable(f.seed, key.Interface()) ^ f.walk(value)
			v.SetMapIndex(key, value)
		}
		mix(sum)
	case reflect.String:
		if v.Len() == 0 {
			return hash
		}
		mix(maphash.String(f.seed, v.String()))
	default:
		if v.Comparable() {
			mix(maphash.Comparable(f.seed, v.Interface()))
		}
		return hash
	}
	f.replace(v, hash)
	return hash
}

// replace sets v to an equal value that was seen before.
func (f *folder) replace(v reflect.Value, hash uint64) {
	for _, known := range f.known[hash] {
		if reflect.DeepEqual(known.Interface(), v.Interface()) {
			v.Set(known)
			return
		}
	}
	kept := reflect.New(v.Type()).Elem() // v itself may be part of what is dropped
	kept.Set(v)
	f.known[hash] = append(f.known[hash], kept)
}

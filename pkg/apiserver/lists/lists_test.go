// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lists

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// codecs are those of the machinery, and those with a cache.
func codecs(cache *Cache) (plain, cached runtime.NegotiatedSerializer) {
	plain = serializer.NewCodecFactory(scheme.Scheme, serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf())
	return plain, Encoders(plain, cache)
}

// encode is what a response has.
func encode(t *testing.T, codecs runtime.NegotiatedSerializer, mediaType string, pretty bool, gv schema.GroupVersion, obj runtime.Object) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("there is no encoder of %s", mediaType)
	}
	base := runtime.Encoder(info.Serializer)
	if pretty {
		base = info.PrettySerializer
	}
	var out bytes.Buffer
	if err := codecs.EncoderForVersion(base, gv).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fill sets all fields of a value to something, that differs from one seed to the next.
func fill(v reflect.Value, seed, depth int) {
	switch into := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return // items of a list have none
	case *metav1.Time:
		*into = metav1.Unix(int64(1e9+seed), 0)
		return
	case *metav1.MicroTime:
		*into = metav1.NewMicroTime(time.Unix(int64(1e9+seed), 7000))
		return
	case *resource.Quantity:
		*into = resource.MustParse(fmt.Sprintf("%dMi", seed))
		return
	case *intstr.IntOrString:
		*into = intstr.FromString("port")
		return
	case *runtime.RawExtension:
		into.Raw = []byte(`{"a":"<b>"}`)
		return
	case *metav1.FieldsV1:
		into.Raw = []byte(`{"f:a":{}}`)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("<text & %d \u2028>", seed))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(seed))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(seed % 200))
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field, seed, depth-1)
			}
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if depth > 0 {
			fillReference(v, seed, depth-1)
		}
	}
}

func fillReference(v reflect.Value, seed, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), seed, depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), seed+i, depth)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, seed, depth)
		fill(value, seed, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// depth is how far lists and what they refer to are filled.
const depth = 5

// filled makes a list of so many items, each with an identity.
func filled(t *testing.T, kind schema.GroupVersionKind, count int) runtime.Object {
	t.Helper()
	l, err := scheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(l).Elem()
	fill(v.Field(1), 3, depth)
	items := reflect.MakeSlice(v.Field(2).Type(), count, count)
	for i := range count {
		fill(items.Index(i), i+1, depth)
		o := items.Index(i).Addr().Interface().(metav1.Object)
		o.SetUID(types.UID(fmt.Sprintf("%s-%d", kind, i)))
		o.SetResourceVersion("1")
	}
	v.Field(2).Set(items)
	return l
}

// TestEncoders compares lists of all kinds with those of the machinery: the first, which fills the cache, the second, which is made from it,
// and such as change or say something else of themselves.
func TestEncoders(t *testing.T) {
	t.Parallel()
	cache := NewCache()
	plain, cached := codecs(cache)
	lists := 0
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || !strings.HasSuffix(kind.Kind, "List") || strings.HasPrefix(goType.PkgPath(), "k8s.io/apimachinery/") {
			continue
		}
		if kind == corev1.SchemeGroupVersion.WithKind("List") {
			continue // of anything
		}
		if !isList(goType) {
			t.Errorf("%s is not known to be a list", kind)
			continue
		}
		lists++
		gv := kind.GroupVersion()
		list := filled(t, kind, few)
		same := func(what string) {
			t.Helper()
			for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
				if want, got := encode(t, plain, mediaType, false, gv, list), encode(t, cached, mediaType, false, gv, list); !bytes.Equal(want, got) {
					t.Errorf("%s, %s, %s: got\n%.300s\nwant\n%.300s", kind, mediaType, what, got, want)
				}
			}
		}
		same("first")
		same("again")
		first := reflect.ValueOf(list).Elem().Field(2).Index(0).Addr().Interface().(metav1.Object)
		first.SetResourceVersion("2")
		first.SetLabels(map[string]string{"changed": "yes"})
		same("changed")
		first.SetUID("")
		first.SetName("without identity")
		same("without identity")
		first.SetUID("again")
		first.(runtime.Object).GetObjectKind().SetGroupVersionKind(gv.WithKind("Other"))
		same("with a kind")
		first.SetName("with a kind")
		same("with a kind, changed")
		reflect.ValueOf(list).Elem().Field(2).SetLen(1)
		same("short")
	}
	if lists < 50 {
		t.Errorf("%d kinds of lists were compared", lists)
	}
	if len(cache.all) < lists {
		t.Errorf("the cache has %d tables for %d kinds of lists in two formats", len(cache.all), lists)
	}
}

// TestEncoders_Other leaves formats and objects alone that it does not know.
func TestEncoders_Other(t *testing.T) {
	t.Parallel()
	cache := NewCache()
	plain, cached := codecs(cache)
	pods := filled(t, corev1.SchemeGroupVersion.WithKind("PodList"), few)
	items, err := meta.ExtractList(pods)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		mediaType string
		pretty    bool
		obj       runtime.Object
	}{
		{runtime.ContentTypeYAML, false, pods}, {runtime.ContentTypeJSON, true, pods}, {runtime.ContentTypeJSON, false, items[0]},
		{runtime.ContentTypeProtobuf, false, items[0]}, {runtime.ContentTypeJSON, false, &metav1.Status{}},
	} {
		want := encode(t, plain, test.mediaType, test.pretty, corev1.SchemeGroupVersion, test.obj)
		if got := encode(t, cached, test.mediaType, test.pretty, corev1.SchemeGroupVersion, test.obj); !bytes.Equal(want, got) {
			t.Errorf("%s: got %.200s, want %.200s", test.mediaType, got, want)
		}
	}
	if len(cache.all) > 0 {
		t.Error("something of it is kept")
	}
}

// TestCache_Bound fills the cache: it stays within its bounds, and what is not kept is told all the same.
func TestCache_Bound(t *testing.T) {
	t.Parallel()
	cache := NewCache()
	cache.bound = 1 << 20
	plain, cached := codecs(cache)
	large := &corev1.ConfigMapList{}
	for i := range 100 {
		cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: "1"}, Data: map[string]string{"a": strings.Repeat("x", 20<<10)}}
		large.Items = append(large.Items, cm)
	}
	for range 2 {
		want := encode(t, plain, runtime.ContentTypeProtobuf, false, corev1.SchemeGroupVersion, large)
		if got := encode(t, cached, runtime.ContentTypeProtobuf, false, corev1.SchemeGroupVersion, large); !bytes.Equal(want, got) {
			t.Fatal("the list is another")
		}
		if cache.size > cache.bound || cache.size < cache.bound/2 {
			t.Errorf("%d bytes are kept, want at most %d", cache.size, cache.bound)
		}
	}
}

// TestCache_Idle lets time pass: what lists have stays, what none has goes, and then the timer, too.
func TestCache_Idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := NewCache()
		_, cached := codecs(cache)
		kind := corev1.SchemeGroupVersion.WithKind("PodList")
		all, some := filled(t, kind, 2*few), filled(t, kind, few)
		list := func(l runtime.Object) {
			encode(t, cached, runtime.ContentTypeProtobuf, false, corev1.SchemeGroupVersion, l)
		}
		kept := func() (n int) {
			cache.mu.Lock()
			defer cache.mu.Unlock()
			for _, table := range cache.all {
				n += len(table)
			}
			return n
		}
		list(all)
		for range 5 {
			<-time.After(idle - time.Second)
			list(some)
			synctest.Wait()
		}
		if kept() != few {
			t.Errorf("%d items are kept, want %d", kept(), few)
		}
		<-time.After(3 * idle)
		synctest.Wait()
		if kept() != 0 {
			t.Errorf("%d items are kept that no list has", kept())
		}
		cache.mu.Lock()
		defer cache.mu.Unlock()
		if cache.size != 0 || cache.timer != nil {
			t.Errorf("they count as %d bytes, timer %v", cache.size, cache.timer)
		}
	})
}

// TestBuffer has a client that goes away.
func TestBuffer(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	w := writerFunc(func([]byte) (int, error) { return 0, gone })
	_, cached := codecs(NewCache())
	info, _ := runtime.SerializerInfoForMediaType(cached.SupportedMediaTypes(), runtime.ContentTypeJSON)
	for range 2 { // the second has the buffer of the first
		err := cached.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(filled(t, corev1.SchemeGroupVersion.WithKind("PodList"), few), w)
		if !errors.Is(err, gone) {
			t.Errorf("the error is %v", err)
		}
	}
	var out bytes.Buffer
	b := buffers.Get().(*buffer)
	b.reset(&out)
	for i := range 5 {
		b.field(1, bytes.Repeat([]byte{byte(i)}, i*piece/2))
	}
	want := b.err
	if err := b.flush(); err != nil || want != nil || out.Len() != 5*piece+5+1+4*3 {
		t.Errorf("%d bytes are written, %v", out.Len(), err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

// BenchmarkEncode compares a list of 100 pods with everything, of which all are known, with the machinery's.
func BenchmarkEncode(b *testing.B) {
	list := filled(&testing.T{}, corev1.SchemeGroupVersion.WithKind("PodList"), 100)
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		plain, cached := codecs(NewCache())
		for name, c := range map[string]runtime.NegotiatedSerializer{"plain": plain, "cached": cached} {
			b.Run(mediaType+"/"+name, func(b *testing.B) {
				info, _ := runtime.SerializerInfoForMediaType(c.SupportedMediaTypes(), mediaType)
				encoder := c.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
				for b.Loop() {
					if err := encoder.Encode(list, io.Discard); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

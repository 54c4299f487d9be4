// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package creates

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	openapibuilder3 "k8s.io/kube-openapi/pkg/builder3"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/randfill"

	"minik8s.io/minik8s/pkg/apiserver/openapi"
)

// TestShape has objects of all kinds changed in one spot: if their shape stays, the machinery's answer must stay too.
func TestShape(t *testing.T) {
	managers := fieldManagers(t)
	kinds := slices.SortedFunc(maps.Keys(managers), func(x, y schema.GroupVersionKind) int { return strings.Compare(x.String(), y.String()) })
	random := rand.New(rand.NewPCG(1, 2))
	alike, other := 0, 0
	for _, kind := range kinds {
		for range 12 {
			a := randomObject(t, kind, random)
			shape, ok := appendShape(nil, reflect.ValueOf(a), false)
			if !ok {
				continue
			}
			fields := managedFields(t, managers[kind], kind, a)
			for range 25 {
				b := a.DeepCopyObject()
				spots := spotsOf(reflect.ValueOf(b))
				spots[random.IntN(len(spots))]()
				changed, ok := appendShape(nil, reflect.ValueOf(b), false)
				if !ok || !bytes.Equal(shape, changed) {
					other++
					continue
				}
				alike++
				if got := managedFields(t, managers[kind], kind, b); !bytes.Equal(fields, got) {
					t.Fatalf("%s: objects of the same shape:\n%#v\n%#v\nhave other fields:\n%s\n%s", kind, a, b, fields, got)
				}
			}
		}
	}
	t.Logf("%d changes keep the shape, %d do not", alike, other)
	if alike < 1000 || other < 1000 {
		t.Errorf("%d changes keep the shape, %d do not: too few to tell", alike, other)
	}
}

func TestShape_Differs(t *testing.T) {
	type element struct {
		Name  string `json:"name"`
		Other string `json:"other,omitempty"`
	}
	type all struct {
		Text   string            `json:"text,omitempty"`
		Number *int32            `json:"number,omitempty"`
		Map    map[string]string `json:"map,omitempty"`
		List   []element         `json:"list,omitempty"`
		Set    []string          `json:"set,omitempty"`
		Data   []byte            `json:"data,omitempty"`
	}
	base := all{Text: "a", Number: new(int32(1)), Map: map[string]string{"a": "1"}, List: []element{{"a", "x"}}, Set: []string{"a"}, Data: []byte("a")}
	for name, test := range map[string]struct {
		change func(*all)
		same   bool
	}{
		"a text":              {func(a *all) { a.Text = "b" }, true},
		"no text":             {func(a *all) { a.Text = "" }, false},
		"a number":            {func(a *all) { a.Number = new(int32(2)) }, true},
		"no number":           {func(a *all) { a.Number = nil }, false},
		"a value of a map":    {func(a *all) { a.Map = map[string]string{"a": "2"} }, true},
		"a key of a map":      {func(a *all) { a.Map = map[string]string{"b": "1"} }, false},
		"one more in a map":   {func(a *all) { a.Map = map[string]string{"a": "1", "b": "1"} }, false},
		"a name in a list":    {func(a *all) { a.List = []element{{"b", "x"}} }, false},
		"a value in a list":   {func(a *all) { a.List = []element{{"a", "y"}} }, true},
		"no value in a list":  {func(a *all) { a.List = []element{{"a", ""}} }, false},
		"an element of a set": {func(a *all) { a.Set = []string{"b"} }, false},
		"data":                {func(a *all) { a.Data = []byte("bb") }, true},
		"no data":             {func(a *all) { a.Data = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := base
			test.change(&changed)
			before, _ := appendShape(nil, reflect.ValueOf(base), false)
			after, ok := appendShape(nil, reflect.ValueOf(changed), false)
			if !ok || bytes.Equal(before, after) != test.same {
				t.Errorf("shape of %+v and %+v: %q and %q (%t), want the same: %t", base, changed, before, after, ok, test.same)
			}
		})
	}
}

// TestKeys looks for keys of lists that appendShape does not know.
func TestKeys(t *testing.T) {
	found := 0
	var look func(kind string, s spec.Schema)
	look = func(kind string, s spec.Schema) {
		names, _ := s.Extensions["x-kubernetes-list-map-keys"].([]any)
		for _, name := range names {
			found++
			if !slices.Contains(keys, name.(string)) {
				t.Errorf("%s: %q tells elements of a list apart", kind, name)
			}
		}
		for _, property := range s.Properties {
			look(kind, property)
		}
	}
	config := openapi.NewConfig("1.37", clientscheme.Scheme)
	for kind, definition := range config.V3.GetDefinitions(func(string) spec.Ref { return spec.Ref{} }) {
		look(kind, definition.Schema)
	}
	if found == 0 {
		t.Error("no list has keys")
	}
}

func BenchmarkShape(b *testing.B) {
	pod := randomObject(b, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, rand.New(rand.NewPCG(1, 2)))
	shape := make([]byte, 0, maxShape)
	for b.Loop() {
		shape, _ = appendShape(shape[:0], reflect.ValueOf(pod), false)
	}
	b.ReportMetric(float64(len(shape)), "bytes")
}

// fieldManagers are the machinery's, by the kinds that have a definition, and metadata.
func fieldManagers(t *testing.T) map[schema.GroupVersionKind]*managedfields.FieldManager {
	t.Helper()
	config := openapi.NewConfig("1.37", clientscheme.Scheme)
	known := config.V3.GetDefinitions(func(string) spec.Ref { return spec.Ref{} })
	names := map[schema.GroupVersionKind]string{}
	for kind := range clientscheme.Scheme.AllKnownTypes() {
		obj, err := clientscheme.Scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		name := openapiutil.GetCanonicalTypeName(obj)
		if _, defined := known[name]; !defined {
			continue
		}
		if _, err := meta.Accessor(obj); err == nil {
			names[kind] = name
		}
	}
	document, err := openapibuilder3.BuildOpenAPIDefinitionsForResources(config.V3, slices.Collect(maps.Values(names))...)
	if err != nil {
		t.Fatal(err)
	}
	converter, err := managedfields.NewTypeConverter(document, false)
	if err != nil {
		t.Fatal(err)
	}
	managers := map[schema.GroupVersionKind]*managedfields.FieldManager{}
	for kind := range names {
		managers[kind], err = managedfields.NewDefaultFieldManager(converter, clientscheme.Scheme, clientscheme.Scheme, clientscheme.Scheme, kind, kind.GroupVersion(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	return managers
}

// managedFields are nothing if the machinery fails to find them out: objects are made without them then.
func managedFields(t *testing.T, manager *managedfields.FieldManager, kind schema.GroupVersionKind, obj runtime.Object) []byte {
	t.Helper()
	live, err := clientscheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	updated, err := manager.Update(live, obj.DeepCopyObject(), "someone")
	if err != nil {
		return nil
	}
	m, err := meta.Accessor(updated)
	if err != nil {
		t.Fatal(err)
	}
	var fields []byte
	for _, entry := range m.GetManagedFields() {
		fields = append(fields, entry.FieldsV1.Raw...)
	}
	return fields
}

// randomObject has about half of what an object may have.
func randomObject(tb testing.TB, kind schema.GroupVersionKind, random *rand.Rand) runtime.Object {
	tb.Helper()
	obj, err := clientscheme.Scheme.New(kind)
	if err != nil {
		tb.Fatal(err)
	}
	word := func() string { return string(rune('a'+random.IntN(26))) + string(rune('a'+random.IntN(26))) }
	randfill.NewWithSeed(random.Int64()).NilChance(0.5).NumElements(1, 3).MaxDepth(14).Funcs(
		func(s *string, _ randfill.Continue) { *s = word() },
		func(q *resource.Quantity, _ randfill.Continue) {
			*q = *resource.NewQuantity(random.Int64N(100), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, _ randfill.Continue) { *v = intstr.FromString(word()) },
		func(v *metav1.Time, _ randfill.Continue) { *v = metav1.NewTime(time.Unix(random.Int64N(1e9), 0)) },
		func(v *metav1.MicroTime, _ randfill.Continue) {
			*v = metav1.NewMicroTime(time.Unix(random.Int64N(1e9), 0))
		},
		func(v *runtime.RawExtension, _ randfill.Continue) { v.Raw = []byte(`{"` + word() + `":1}`) },
		func(v *[]metav1.ManagedFieldsEntry, _ randfill.Continue) { *v = nil },
		func(v *metav1.TypeMeta, _ randfill.Continue) { v.APIVersion, v.Kind = kind.ToAPIVersionAndKind() },
	).Fill(obj)
	return obj
}

// spotsOf are ways to change a value, each in one spot.
func spotsOf(v reflect.Value) (spots []func()) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if v.CanSet() {
			spots = append(spots, func() { v.SetZero() })
		}
		return append(spots, spotsOf(v.Elem())...)
	case reflect.Struct:
		if v.CanSet() {
			spots = append(spots, func() { v.SetZero() })
		}
		if structureOf(v.Type()).leaf || structureOf(v.Type()).opaque || v.Type() == reflect.TypeFor[metav1.TypeMeta]() {
			return spots
		}
		for _, field := range v.Fields() {
			spots = append(spots, spotsOf(field)...)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			spots = append(spots, func() { v.Set(v.Slice(0, v.Len()-1)) }, func() { v.SetZero() })
		}
		for i := range v.Len() {
			spots = append(spots, spotsOf(v.Index(i))...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			spots = append(spots, func() { v.SetMapIndex(key, reflect.Value{}) })
			if v.Type().Elem().Kind() == reflect.String {
				spots = append(spots, func() { v.SetMapIndex(key, reflect.ValueOf("changed").Convert(v.Type().Elem())) })
			}
		}
	case reflect.String:
		spots = append(spots, func() { v.SetString("changed") }, func() { v.SetString("") })
	case reflect.Int, reflect.Int32, reflect.Int64:
		spots = append(spots, func() { v.SetInt(7) }, func() { v.SetInt(0) })
	case reflect.Bool:
		spots = append(spots, func() { v.SetBool(!v.Bool()) })
	}
	return spots
}

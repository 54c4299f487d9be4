// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

func TestFold(t *testing.T) {
	t.Parallel()
	props := func(about string) map[string]apiextensionsv1.JSONSchemaProps {
		text := fmt.Sprintf("The name of %s", about) // made anew each time
		return map[string]apiextensionsv1.JSONSchemaProps{
			"name":  {Type: "string", Description: text, MaxLength: new(int64(253)), Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}},
			"count": {Type: "integer", Minimum: new(float64(0)), Enum: []apiextensionsv1.JSON{{Raw: []byte("1")}, {Raw: []byte("2")}}},
		}
	}
	object := func(about string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props(about)}
	}
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"a": object("one"), "b": object("one"), "c": object("another"),
		"list": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props("one")}}},
		"none": {Properties: map[string]apiextensionsv1.JSONSchemaProps{}, Required: []string{}, AllOf: nil},
	}}
	want := *schema.DeepCopy()
	fold(&schema)
	if diff := cmp.Diff(want, schema); diff != "" {
		t.Fatalf("folding changed the schema (-want +got):\n%s", diff)
	}

	same := func(a, b map[string]apiextensionsv1.JSONSchemaProps) bool {
		return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b))
	}
	p := schema.Properties
	if !same(p["a"].Properties, p["b"].Properties) || !same(p["a"].Properties, p["list"].Items.Schema.Properties) {
		t.Error("equal properties are in memory twice")
	}
	if same(p["a"].Properties, p["c"].Properties) {
		t.Error("different properties are the same")
	}
	one, other := p["a"].Properties["name"], p["c"].Properties["name"]
	if one.MaxLength != other.MaxLength || one.Default != other.Default {
		t.Error("equal values of different properties are in memory twice")
	}
}

// TestFolding folds what is watched, and leaves alone what belongs to whoever has it decoded.
func TestFolding(t *testing.T) {
	t.Parallel()
	codec := folding{apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)}
	props := func() map[string]apiextensions.JSONSchemaProps {
		return map[string]apiextensions.JSONSchemaProps{"name": {Type: "string", MaxLength: new(int64(253))}}
	}
	data, err := apiruntime.Encode(codec, &apiextensions.CustomResourceDefinition{
		Spec: apiextensions.CustomResourceDefinitionSpec{Group: "example.com", Versions: []apiextensions.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"a": {Type: "object", Properties: props()}, "b": {Type: "object", Properties: props()}},
			}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		into apiruntime.Object
		want bool
	}{{"watched", nil, true}, {"somebody's own", &apiextensions.CustomResourceDefinition{}, false}} {
		obj, _, err := codec.Decode(data, nil, tc.into)
		if err != nil {
			t.Fatal(err)
		}
		// The machinery moves a schema that all versions have to the top.
		p := obj.(*apiextensions.CustomResourceDefinition).Spec.Validation.OpenAPIV3Schema.Properties
		if once := p["a"].Properties["name"].MaxLength == p["b"].Properties["name"].MaxLength; once != tc.want {
			t.Errorf("%s: equal parts are in memory once: %t, want %t", tc.name, once, tc.want)
		}
	}
}

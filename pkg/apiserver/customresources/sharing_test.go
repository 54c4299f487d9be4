// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"runtime"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

func TestSharing(t *testing.T) {
	t.Parallel()
	s := newSharing(apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
	stored := func(description, phase string) []byte {
		t.Helper()
		data, err := apiruntime.Encode(s, &apiextensions.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", UID: "u"},
			Spec: apiextensions.CustomResourceDefinitionSpec{Group: "example.com", Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", Description: description}},
			}}},
			Status: apiextensions.CustomResourceDefinitionStatus{StoredVersions: []string{phase}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	decode := func(data []byte, into apiruntime.Object) *apiextensions.CustomResourceDefinition {
		t.Helper()
		obj, _, err := s.Decode(data, nil, into)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*apiextensions.CustomResourceDefinition)
	}
	// The machinery moves a schema that all versions have to the top.
	schema := func(d *apiextensions.CustomResourceDefinition) *apiextensions.JSONSchemaProps {
		return d.Spec.Validation.OpenAPIV3Schema
	}

	first := decode(stored("old", "new"), nil)
	second := decode(stored("old", "established"), nil)
	if schema(first) != schema(second) {
		t.Error("two versions with the same specification do not share it")
	}
	if second.Status.StoredVersions[0] != "established" {
		t.Errorf("the status became %v", second.Status)
	}
	if own := decode(stored("old", "established"), &apiextensions.CustomResourceDefinition{}); schema(own) == schema(second) {
		t.Error("an object that is decoded into shares its specification")
	}
	third := decode(stored("new", "established"), nil)
	if schema(third).Description != "new" || schema(second).Description != "old" {
		t.Error("a changed specification is not seen, or changes the version before")
	}

	runtime.KeepAlive(third)
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		runtime.GC() // cleanups run some time after it
		s.mu.Lock()
		left := len(s.latest)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a definition that nobody has any more is remembered")
		}
	}
}

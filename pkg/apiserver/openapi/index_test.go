// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func definition(generation int64, established apiextensionsv1.ConditionStatus) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", UID: "u", Generation: generation},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
			}}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: established}}},
	}
}

func TestIndex(t *testing.T) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	x := newIndex(newCustom(apiextensionslisters.NewCustomResourceDefinitionLister(store)), newRemotes(nil))
	built := 0
	x.add("apis/apps/v1", func() (*spec3.OpenAPI, error) {
		built++
		return &spec3.OpenAPI{Version: "3.0.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "t", Version: "v"}}, Paths: &spec3.Paths{}}, nil
	})
	get := func(url, accept string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url, nil)
		r.Header.Set("Accept", accept)
		if r.URL.Path == "/openapi/v3" {
			x.serveIndex(w, r)
		} else {
			x.serveDocument(w, r)
		}
		return w
	}
	list := func() map[string]handler3.OpenAPIV3DiscoveryGroupVersion {
		var d handler3.OpenAPIV3Discovery
		if err := json.Unmarshal(get("/openapi/v3", jsonType).Body.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		return d.Paths
	}
	apps := list()["apis/apps/v1"].ServerRelativeURL
	if built != 0 {
		t.Error("to list the documents, one was built")
	}
	for _, accept := range []string{jsonType, "*/*", "", protoType, "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"} {
		if got := get(apps, accept); got.Code != 200 || got.Header().Get("Cache-Control") != "public, immutable" || got.Body.Len() == 0 {
			t.Errorf("%s as %q: %d", apps, accept, got.Code)
		}
	}
	if built != 1 {
		t.Errorf("the document was built %d times", built)
	}
	for url, want := range map[string]int{"/openapi/v3/apis/apps/v1": 200, "/openapi/v3/apis/apps/v1?hash=OLD": 301, "/openapi/v3/apis/none/v1": 404} {
		if got := get(url, jsonType); got.Code != want {
			t.Errorf("%s: %d, want %d", url, got.Code, want)
		}
	}
	if got := get(apps, "text/html"); got.Code != http.StatusNotAcceptable {
		t.Errorf("as HTML: %d", got.Code)
	}

	const path = "apis/example.com/v1"
	var last string
	for _, tc := range []struct {
		name    string
		change  func() error
		listed  bool
		changed bool
	}{
		{"not established", func() error { return store.Add(definition(1, apiextensionsv1.ConditionFalse)) }, false, false},
		{"established", func() error { return store.Update(definition(1, apiextensionsv1.ConditionTrue)) }, true, true},
		{"the same", func() error { return nil }, true, false},
		{"another generation", func() error { return store.Update(definition(2, apiextensionsv1.ConditionTrue)) }, true, true},
		{"gone", func() error { return store.Delete(definition(2, apiextensionsv1.ConditionTrue)) }, false, true},
	} {
		if err := tc.change(); err != nil {
			t.Fatal(err)
		}
		entry, ok := list()[path]
		if ok != tc.listed || (entry.ServerRelativeURL != last) != tc.changed {
			t.Errorf("%s: listed is %t, %q after %q", tc.name, ok, entry.ServerRelativeURL, last)
		}
		last = entry.ServerRelativeURL
		want := 404
		if tc.listed {
			want = 200
		}
		if got := get("/openapi/v3/"+path, jsonType); got.Code != want {
			t.Errorf("%s: the document answers %d, want %d", tc.name, got.Code, want)
		}
	}
}

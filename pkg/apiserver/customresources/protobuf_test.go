// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"net/http"
	"net/http/httptest"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"
)

func TestRefuseProtobuf(t *testing.T) {
	t.Parallel()
	definitions := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := definitions.Add(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.org"}}); err != nil {
		t.Fatal(err)
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	h := refuseProtobuf(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), apiextensionslisters.NewCustomResourceDefinitionLister(definitions))
	for _, test := range []struct {
		name, contentType, verb, resource, subresource string
		want                                           int
	}{
		{"create", protobuf, "create", "things", "", http.StatusUnsupportedMediaType},
		{"with a parameter", protobuf + ";x=y", "create", "things", "", http.StatusUnsupportedMediaType},
		{"update of the status", protobuf, "update", "things", "status", http.StatusUnsupportedMediaType},
		{"scale", protobuf, "update", "things", "scale", http.StatusTeapot},
		{"options of a deletion", protobuf, "delete", "things", "", http.StatusTeapot},
		{"json", "application/json", "create", "things", "", http.StatusTeapot},
		{"nothing", "", "create", "things", "", http.StatusTeapot},
		{"what is not there", protobuf, "create", "others", "", http.StatusTeapot},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set("Content-Type", test.contentType)
			info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: test.verb, APIGroup: "example.org", APIVersion: "v1", Resource: test.resource, Subresource: test.subresource}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
			if w.Code != test.want {
				t.Errorf("status is %d, want %d: %s", w.Code, test.want, w.Body)
			}
		})
	}
}

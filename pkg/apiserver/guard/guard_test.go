// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func TestNew(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, subresource, accept string
		err                               error
		want                              int
		wantReason                        metav1.StatusReason
	}{
		{"apply of another type", "PATCH", "", "application/json", errors.New("failed to create typed patch object (x): .a: expected map"), 400, metav1.StatusReasonBadRequest},
		{"in protobuf", "PATCH", "", "application/vnd.kubernetes.protobuf", errors.New("failed to create typed patch object (x): .a: expected map"), 400, metav1.StatusReasonBadRequest},
		{"in YAML", "GET", "", "application/yaml", errors.New(`resourceVersion: Invalid value: "a"`), 400, metav1.StatusReasonBadRequest},
		{"strategic merge patch", "PATCH", "status", "application/json", errors.New("unknown patch type: 1 in map"), 400, metav1.StatusReasonBadRequest},
		{"the same words elsewhere", "GET", "", "application/json", errors.New("unknown patch type: 1 in map"), 500, ""},
		{"the server's own fault", "PATCH", "", "application/json", errors.New("etcdserver: no leader"), 500, ""},
		{"another's answer", "GET", "proxy", "application/json", errors.New(`resourceVersion: Invalid value: "a"`), 500, ""},
		{"no failure", "GET", "", "application/json", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), 404, metav1.StatusReasonNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				responsewriters.ErrorNegotiated(test.err, codecs, schema.GroupVersion{Version: "v1"}, w, r)
			}))
			r := httptest.NewRequest(test.method, "/api/v1/pods", nil)
			r.Header.Set("Accept", test.accept)
			info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: "get", Resource: "pods", Subresource: test.subresource}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
			if w.Code != test.want {
				t.Errorf("status is %d, want %d: %s", w.Code, test.want, w.Body)
			}
			o, err := runtime.Decode(codecs.UniversalDeserializer(), w.Body.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if got := o.(*metav1.Status); got.Reason != test.wantReason || got.Message != test.err.Error() || int(got.Code) != test.want {
				t.Errorf("the answer is %+v", got)
			}
		})
	}
}

func TestNew_Panics(t *testing.T) {
	t.Parallel()
	const inPatch = "hash of unhashable type\ngoroutine 1 [running]:\nk8s.io/apimachinery/pkg/util/strategicpatch.mergeMap(...)"
	serve := func(method string, reason any) (w *httptest.ResponseRecorder, panicked any) {
		defer func() { panicked = recover() }()
		w = httptest.NewRecorder()
		r := httptest.NewRequest(method, "/api/v1/pods/a", nil)
		info := &apirequest.RequestInfo{IsResourceRequest: true, Resource: "pods"}
		New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(reason) })).ServeHTTP(w, r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
		return w, nil
	}
	if w, panicked := serve("PATCH", inPatch); panicked != nil || w.Code != http.StatusBadRequest {
		t.Errorf("a panic on a patch ends in %v, and the answer %d: %s", panicked, w.Code, w.Body)
	}
	for _, reason := range []any{"index out of range\ngoroutine 1 [running]:\nmain.main()", http.ErrAbortHandler} {
		if _, panicked := serve("PATCH", reason); panicked != reason {
			t.Errorf("a panic with %v ends in %v", reason, panicked)
		}
	}
}

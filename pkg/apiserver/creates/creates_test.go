// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package creates

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// store keeps the ConfigMap that was made last. It may fail, or never answer.
type store struct {
	err  error
	hang bool
	last *corev1.ConfigMap
}

var (
	_ rest.Creater = &store{}
	_ rest.Scoper  = &store{}
)

func (*store) New() runtime.Object   { return &corev1.ConfigMap{} }
func (*store) Destroy()              {}
func (*store) NamespaceScoped() bool { return true }

func (s *store) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	if err := validate(ctx, obj); err != nil {
		return nil, err
	}
	if s.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.last = obj.(*corev1.ConfigMap)
	return obj, s.err
}

// mutation is admission by a function.
type mutation func(*corev1.ConfigMap) error

func (mutation) Handles(admission.Operation) bool { return true }

func (m mutation) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return m(a.GetObject().(*corev1.ConfigMap))
}

// server has ConfigMaps, and a stand-in for the machinery that answers with 418 and what it was sent.
func server(t *testing.T, s *store, admit admission.Interface) http.Handler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hub := schema.GroupVersion{Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(hub, &corev1.ConfigMap{})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	group := genericapiserver.NewDefaultAPIGroupInfo("", scheme, runtime.NewParameterCodec(scheme), serializer.NewCodecFactory(scheme))
	group.VersionedResourcesStorageMap["v1"] = map[string]rest.Storage{"configmaps": s}
	c := &Creates{}
	c.Install(&genericapiserver.GenericAPIServer{EquivalentResourceRegistry: runtime.NewEquivalentResourceRegistry()}, []*genericapiserver.APIGroupInfo{&group}, c.Learning(admit))
	machinery := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(w, r.Body)
		// As the machinery does: managed fields, then admission.
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "someone", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{}}`)},
		}}}}
		attributes := admission.NewAttributesRecord(m, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "ns", "", corev1.SchemeGroupVersion.WithResource("configmaps"), "", admission.Create, nil, false, nil)
		_ = c.Learning(mutation(func(*corev1.ConfigMap) error { return nil })).(admission.MutationInterface).Admit(r.Context(), attributes, nil)
	})
	infos := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			t.Error(err)
		}
		c.Handler(machinery).ServeHTTP(w, r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
	})
}

// request is one for the creation of a ConfigMap.
func request(change func(*http.Request), body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/ns/configmaps", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "someone/1")
	if change != nil {
		change(r)
	}
	return r
}

func do(h http.Handler, r *http.Request) (code int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestHandler(t *testing.T) {
	s := &store{}
	h := server(t, s, mutation(func(m *corev1.ConfigMap) error { m.Labels = map[string]string{"admitted": "yes"}; return nil }))
	if code, body := do(h, request(nil, `{"metadata":{"name":"a"},"data":{"k":"1"}}`)); code != http.StatusTeapot || body != `{"metadata":{"name":"a"},"data":{"k":"1"}}` {
		t.Fatalf("the first of its shape: %d %s, want that the machinery makes it", code, body)
	}
	code, body := do(h, request(nil, `{"metadata":{"name":"b"},"data":{"k":"2"}}`))
	if code != http.StatusCreated || !strings.Contains(body, `"data":{"k":"2"}`) || s.last.Name != "b" || s.last.Namespace != "ns" || s.last.Labels["admitted"] != "yes" {
		t.Fatalf("the second: %d %s, stored as %+v", code, body, s.last)
	}
	fields := s.last.ManagedFields
	if len(fields) != 1 || fields[0].Manager != "someone" || string(fields[0].FieldsV1.Raw) != `{"f:data":{}}` || fields[0].Time.IsZero() {
		t.Errorf("managed fields of the second: %+v", fields)
	}

	for _, query := range []string{"dryRun=All", "fieldValidation=Strict", "unknown=1"} {
		if code, body := do(h, request(func(r *http.Request) { r.URL.RawQuery = query }, `{"metadata":{"name":"b"},"data":{"k":"2"}}`)); code != http.StatusCreated {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
	ignored := func(r *http.Request) { r.URL.RawQuery = "fieldValidation=Ignore" }
	if code, body := do(h, request(ignored, `{"metadata":{"name":"b"},"data":{"k":"2"},"unknown":1}`)); code != http.StatusCreated {
		t.Errorf("an unknown field that is to be ignored: %d %s", code, body)
	}

	for name, test := range map[string]struct {
		change func(*http.Request)
		body   string
	}{
		"another shape":         {nil, `{"metadata":{"name":"c"},"data":{"other":"2"}}`},
		"another client":        {func(r *http.Request) { r.Header.Set("User-Agent", "other") }, ""},
		"an endless name":       {func(r *http.Request) { r.Header.Set("User-Agent", strings.Repeat("x", maxAgent+1)) }, ""},
		"another manager":       {func(r *http.Request) { r.URL.RawQuery = "fieldManager=other" }, ""},
		"bad parameters":        {func(r *http.Request) { r.URL.RawQuery = "dryRun=Some" }, ""},
		"a table":               {func(r *http.Request) { r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io") }, ""},
		"compressed":            {func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, ""},
		"no format of ours":     {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, ""},
		"an answer in none":     {func(r *http.Request) { r.Header.Set("Accept", "text/plain") }, ""},
		"no namespace":          {func(r *http.Request) { r.URL.Path = "/api/v1/configmaps" }, ""},
		"another namespace":     {func(r *http.Request) { r.URL.Path = "/api/v1/namespaces/other/configmaps" }, `{"metadata":{"name":"c","namespace":"ns"},"data":{"k":"2"}}`},
		"a path with more":      {func(r *http.Request) { r.URL.Path += "/" }, ""},
		"a name":                {func(r *http.Request) { r.URL.Path += "/c" }, ""},
		"an update":             {func(r *http.Request) { r.Method = http.MethodPut; r.URL.Path += "/c" }, ""},
		"another resource":      {func(r *http.Request) { r.URL.Path = "/api/v1/namespaces/ns/pods" }, ""},
		"an unknown field":      {nil, `{"metadata":{"name":"c"},"data":{"k":"2"},"unknown":1}`},
		"managed fields":        {nil, `{"metadata":{"name":"c","managedFields":[]},"data":{"k":"2"}}`},
		"two owners":            {nil, `{"metadata":{"name":"c","ownerReferences":[{"uid":"a"},{"uid":"a"}]},"data":{"k":"2"}}`},
		"a large object":        {nil, `{"metadata":{"name":"c"},"data":{"k":"` + strings.Repeat("x", maxBody) + `"}}`},
		"no object":             {nil, `[`},
		"an object of its name": {nil, `{"apiVersion":"apps/v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"2"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := test.body
			if body == "" {
				body = `{"metadata":{"name":"c"},"data":{"k":"2"}}`
			}
			if code, got := do(h, request(test.change, body)); code != http.StatusTeapot || got != body {
				t.Errorf("answered with %d, %d bytes; want that the machinery gets the %d bytes that were sent", code, len(got), len(body))
			}
		})
	}
}

func TestHandler_Errors(t *testing.T) {
	s := &store{}
	var refusal error
	h := server(t, s, mutation(func(*corev1.ConfigMap) error { return refusal }))
	body := `{"metadata":{"name":"a"},"data":{"k":"1"}}`
	do(h, request(nil, body))
	refusal = admission.NewForbidden(admission.NewAttributesRecord(&corev1.ConfigMap{}, nil, schema.GroupVersionKind{}, "ns", "a",
		corev1.SchemeGroupVersion.WithResource("configmaps"), "", admission.Create, nil, false, nil), errors.New("no more"))
	if code, got := do(h, request(nil, body)); code != http.StatusForbidden || !strings.Contains(got, "no more") || s.last != nil {
		t.Errorf("admission refuses it: %d %s, stored: %v", code, got, s.last)
	}
	refusal, s.err = nil, fmt.Errorf("lost")
	if code, got := do(h, request(nil, body)); code != http.StatusInternalServerError || !strings.Contains(got, "lost") {
		t.Errorf("the store fails: %d %s", code, got)
	}
}

func TestHandler_Hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		h := server(t, s, mutation(func(*corev1.ConfigMap) error { return nil }))
		body := `{"metadata":{"name":"a"},"data":{"k":"1"}}`
		do(h, request(nil, body))
		s.hang = true
		begun := time.Now()
		code, got := do(h, request(nil, body))
		if took := time.Since(begun); code != http.StatusGatewayTimeout || took != timeout {
			t.Errorf("a store that never answers: %d after %s: %s, want 504 after %s", code, took, got, timeout)
		}
	})
}

func TestHandler_Mends(t *testing.T) {
	s := &store{}
	h := server(t, s, mutation(func(m *corev1.ConfigMap) error {
		m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{Operation: "Nothing"})
		m.OwnerReferences = []metav1.OwnerReference{{UID: "a"}, {UID: "b"}, {UID: "a"}}
		return nil
	}))
	body := `{"metadata":{"name":"a"},"data":{"k":"1"}}`
	do(h, request(nil, body))
	if code, got := do(h, request(nil, body)); code != http.StatusCreated || len(s.last.ManagedFields) != 1 || len(s.last.OwnerReferences) != 2 {
		t.Errorf("%d %s, stored: %+v", code, got, s.last)
	}
}

// sink keeps the last event of audit.
type sink struct{ last *auditinternal.Event }

func (s *sink) ProcessEvents(events ...*auditinternal.Event) bool {
	s.last = events[len(events)-1].DeepCopy()
	return true
}

// TestHandler_Audit: audit has what was sent, and not what is made of it, as if the machinery had answered.
func TestHandler_Audit(t *testing.T) {
	h := server(t, &store{}, mutation(func(*corev1.ConfigMap) error { return nil }))
	body := `{"metadata":{"name":"a","uid":"sent"},"data":{"k":"1"}}`
	do(h, request(nil, body))
	ctx := audit.WithAuditContext(t.Context())
	events, audited := &sink{}, audit.AuditContextFrom(ctx)
	if err := audited.Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequest}, events); err != nil {
		t.Fatal(err)
	}
	if code, got := do(h, request(nil, body).WithContext(ctx)); code != http.StatusCreated || strings.Contains(got, "sent") {
		t.Fatalf("%d %s, want that it is made here, without what clients do not choose", code, got)
	}
	audited.ProcessEventStage(ctx, auditinternal.StageResponseComplete)
	if events.last == nil || events.last.RequestObject == nil {
		t.Fatalf("event: %+v, want one with an object", events.last)
	}
	object := string(events.last.RequestObject.Raw)
	if !strings.Contains(object, `"uid":"sent"`) || strings.Contains(object, `"namespace"`) || events.last.ObjectRef.UID != "sent" {
		t.Errorf("event of %+v: %s", events.last.ObjectRef, object)
	}
}

// TestKnown has more answers than are kept.
func TestKnown(t *testing.T) {
	var k known
	entries := []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte("{}")}}}
	for i := range 3 * maxKnown {
		q := question{shape: fmt.Sprint(i)}
		k.learn(q, entries)
		if _, found := k.entry(q); !found || len(k.entries) > maxKnown {
			t.Fatalf("answer %d is there: %t, of %d", i, found, len(k.entries))
		}
	}
	for name, other := range map[string][]metav1.ManagedFieldsEntry{
		"none": nil, "two": append(entries, entries...), "large": {{FieldsV1: &metav1.FieldsV1{Raw: make([]byte, maxEntry+1)}}}, "empty": {{}},
	} {
		k.learn(question{shape: name}, other)
		if _, found := k.entry(question{shape: name}); found {
			t.Errorf("%s: is kept", name)
		}
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registrytest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

func (s *suite[T]) watch(t *testing.T) {
	list, err := s.client.List(ctx(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.client.Watch(ctx(t), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	made := s.create(t)
	if ev := nextEvent(t, w); ev.Type != watch.Added || name(t, ev.Object) != made.GetName() {
		t.Errorf("first event is %s %s, want ADDED %s", ev.Type, name(t, ev.Object), made.GetName())
	}
	_, err = s.client.Patch(ctx(t), made.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"suite":"w"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("label: %v", err)
	}
	if ev := nextEvent(t, w); ev.Type != watch.Modified {
		t.Errorf("second event is %s, want MODIFIED", ev.Type)
	}
	s.remove(t, made.GetName())
	for {
		ev := nextEvent(t, w)
		if ev.Type == watch.Deleted {
			return
		}
		if ev.Type != watch.Modified { // a deletion may be marked first
			t.Fatalf("event %s, want DELETED", ev.Type)
		}
	}
}

func nextEvent(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case ev, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("watch ended")
			}
			if ev.Type != watch.Bookmark {
				return ev
			}
		case <-timeout:
			t.Fatal("no event in 20 s")
		}
	}
}

func name(t *testing.T, obj runtime.Object) string {
	t.Helper()
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	return m.GetName()
}

func (s *suite[T]) table(t *testing.T) {
	made := s.create(t)
	c := jsonConfig(s.config)
	gv := s.r.Kind.GroupVersion()
	c.GroupVersion, c.APIPath = &gv, "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.NegotiatedSerializer = basicSerializer()
	rc, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	req := rc.Get().Resource(s.r.Name).Name(made.GetName()).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !s.r.ClusterScoped {
		req = req.Namespace(Namespace)
	}
	data, err := req.Do(ctx(t)).Raw()
	if err != nil {
		t.Fatalf("get as table: %v", err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows, want 1", len(table.Rows))
	}
	cells := table.Rows[0].Cells
	if len(cells) != len(table.ColumnDefinitions)+s.c.ExtraCells {
		t.Errorf("%d cells in %d columns", len(cells), len(table.ColumnDefinitions))
	}
	if s.c.Row == nil {
		return
	}
	want := roundTrip(t, s.c.Row)
	got := cells[:min(len(want), len(cells))]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// roundTrip gives numbers the type that JSON has for them.
func roundTrip(t *testing.T, cells []any) []any {
	t.Helper()
	data, err := json.Marshal(cells)
	if err != nil {
		t.Fatal(err)
	}
	var out []any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *suite[T]) fieldSelector(t *testing.T) {
	made := s.create(t)
	list, err := s.client.List(ctx(t), metav1.ListOptions{FieldSelector: "metadata.name=" + made.GetName()})
	if err != nil {
		t.Fatalf("list by name: %v", err)
	}
	if len(list.Items) != 1 {
		t.Errorf("%d items by name, want 1", len(list.Items))
	}
	typed := s.typed(t, made)
	for key, of := range s.r.Fields {
		value := of(typed)
		list, err := s.client.List(ctx(t), metav1.ListOptions{FieldSelector: key + "=" + value})
		if err != nil {
			t.Errorf("list by %s: %v", key, err)
		} else if len(list.Items) == 0 {
			t.Errorf("no items by %s=%s", key, value)
		}
	}
	_, err = s.client.List(ctx(t), metav1.ListOptions{FieldSelector: "no.such=x"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("list by an unknown field = %v, want BadRequest", err)
	}
}

// basicSerializer decodes nothing but errors: answers are read raw.
func basicSerializer() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

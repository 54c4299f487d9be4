// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// inner is an informer that a test speaks for.
type inner struct {
	toolscache.SharedIndexInformer
	store    toolscache.Store
	handlers []toolscache.ResourceEventHandler
}

func (i *inner) GetStore() toolscache.Store { return i.store }

func (i *inner) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return &struct {
		toolscache.ResourceEventHandlerRegistration
	}{}, nil
}

func TestInformer(t *testing.T) {
	named := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	under := &inner{store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}
	i := &informer{SharedIndexInformer: under}
	var heard []string
	listen := func(who string) toolscache.ResourceEventHandlerRegistration {
		t.Helper()
		name := func(obj any) string { return obj.(*corev1.Pod).Name }
		r, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { heard = append(heard, who+" add "+name(obj)) },
			UpdateFunc: func(_, obj any) { heard = append(heard, who+" update "+name(obj)) },
			DeleteFunc: func(obj any) { heard = append(heard, who+" delete "+name(obj)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := listen("first")
	if len(under.handlers) != 1 {
		t.Fatalf("listens %d times", len(under.handlers))
	}
	events := under.handlers[0]
	if err := under.store.Add(named("p")); err != nil {
		t.Fatal(err)
	}
	events.OnAdd(named("p"), false)
	listen("second")
	if len(under.handlers) != 1 {
		t.Fatalf("listens %d times", len(under.handlers))
	}
	events.OnUpdate(named("p"), named("p"))
	if err := i.RemoveEventHandler(first); err != nil {
		t.Fatal(err)
	}
	events.OnDelete(named("p"))
	want := []string{"first add p", "second add p", "first update p", "second update p", "second delete p"}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"minik8s.io/minik8s/pkg/etcd"
)

// newThings is the storage of a custom resource.
func newThings(t *testing.T) (l *lazy, destroy func()) {
	t.Helper()
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	factory := NewFactory(Config{Backend: member, Scheme: runtime.NewScheme()})
	gr := schema.GroupResource{Group: "example.com", Resource: "things"}
	options, err := factory.CustomResources().GetRESTOptions(gr, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := func(obj runtime.Object) (string, error) {
		return storage.NamespaceKeyFunc("/"+options.ResourcePrefix+"/", obj)
	}
	newThing := func() runtime.Object { return thing("") }
	newList := func() runtime.Object { return &unstructured.UnstructuredList{} }
	s, destroy, err := options.Decorator(options.StorageConfig, "/"+options.ResourcePrefix+"/", key, newThing, newList, storage.DefaultNamespaceScopedAttr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		destroy()
		factory.Stop()
		if err := member.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*lazy), destroy
}

func thing(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Thing")
	if name != "" {
		u.SetName(name)
		u.SetNamespace("default")
	}
	return u
}

// create returns the version of the new object.
func create(t *testing.T, l *lazy, name string) string {
	t.Helper()
	out := thing("")
	if err := l.Create(t.Context(), "/example.com/things/default/"+name, thing(name), out, 0); err != nil {
		t.Fatal(err)
	}
	return out.GetResourceVersion()
}

func list(t *testing.T, l *lazy, version string) int {
	t.Helper()
	all := &unstructured.UnstructuredList{}
	if err := l.GetList(t.Context(), "/example.com/things/", storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything}, all); err != nil {
		t.Fatal(err)
	}
	return len(all.Items)
}

// watched checks that a watch from a version sees objects being added, in this order.
func watched(t *testing.T, l *lazy, version string, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w, err := l.Watch(ctx, "/example.com/things/", storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, name := range names {
		e, ok := <-w.ResultChan()
		u, _ := e.Object.(interface{ GetName() string })
		if !ok || e.Type != watch.Added || u == nil || u.GetName() != name {
			t.Fatalf("watch from version %q: event %s of %v, want %s added", version, e.Type, e.Object, name)
		}
	}
}

func (l *lazy) hasBegun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun != nil
}

func TestLazyWatch(t *testing.T) {
	t.Parallel()
	l, destroy := newThings(t)
	first := create(t, l, "a")
	second := create(t, l, "b")
	if n := list(t, l, ""); n != 2 {
		t.Errorf("%d objects are listed, want 2", n)
	}
	if err := l.Get(t.Context(), "/example.com/things/default/a", storage.GetOptions{}, thing("")); err != nil {
		t.Error(err)
	}
	if l.hasBegun() {
		t.Error("the cache has begun with nobody watching")
	}

	watched(t, l, first, "b") // while there is no cache
	if !l.hasBegun() {
		t.Fatal("the cache has not begun with a watch")
	}
	select {
	case <-l.begun.filled:
	case <-time.After(30 * time.Second):
		t.Fatal("the cache is not filled")
	}
	third := create(t, l, "c")
	watched(t, l, first, "b", "c") // from before the cache
	watched(t, l, second, "c")
	fourth := create(t, l, "d")
	watched(t, l, third, "d")
	watched(t, l, "0", "a", "b", "c", "d")
	if n := list(t, l, fourth); n != 4 {
		t.Errorf("%d objects are listed, want 4", n)
	}

	// A definition that goes, or changes, ends the watches of what it defined.
	var open []watch.Interface
	for _, version := range []string{first, fourth} {
		w, err := l.Watch(t.Context(), "/example.com/things/", storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, w)
	}
	destroy()
	for _, w := range open {
		for range w.ResultChan() { // until it is closed
		}
	}
	if _, err := l.Watch(t.Context(), "/example.com/things/", storage.ListOptions{ResourceVersion: "0", Recursive: true, Predicate: storage.Everything}); err == nil {
		t.Error("a storage that was destroyed can be watched")
	}
}

func TestLazyFirstWatchOfAll(t *testing.T) {
	t.Parallel()
	l, _ := newThings(t)
	create(t, l, "a")
	watched(t, l, "0", "a") // waits for the cache
}

func TestLazyList(t *testing.T) {
	t.Parallel()
	l, _ := newThings(t)
	create(t, l, "a")
	for range manyLists {
		list(t, l, "")
	}
	if l.hasBegun() {
		t.Error("the cache has begun with few lists")
	}
	list(t, l, "")
	if !l.hasBegun() {
		t.Error("the cache has not begun with many lists")
	}

	l, _ = newThings(t)
	if list(t, l, "0"); !l.hasBegun() {
		t.Error("the cache has not begun with a list of any version")
	}
}

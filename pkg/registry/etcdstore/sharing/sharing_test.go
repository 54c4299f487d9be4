// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

// fakeStorage has nothing but watches and pages of a list. Each watch gets its source from watches; without one, and without a page, it
// fails.
type fakeStorage struct {
	storage.Interface
	watches chan watch.Interface
	pages   [][]corev1.Pod
}

func (s *fakeStorage) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	if len(s.pages) == 0 {
		return errors.New("no list")
	}
	list.(*corev1.PodList).Items, s.pages = s.pages[0], s.pages[1:]
	return nil
}

func (s *fakeStorage) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	select {
	case w := <-s.watches:
		return w, nil
	default:
		return nil, errors.New("no watch")
	}
}

// timed is an event's object as etcd3 sends it to watch caches.
type timed struct{ runtime.Object }

func (timed) RecordTime() time.Time    { return time.Time{} }
func (t timed) Unwrap() runtime.Object { return t.Object }

// begin returns the two ends of a watch of pods.
func begin(t *testing.T, o *Objects, opts storage.ListOptions) (source *watch.FakeWatcher, out watch.Interface) {
	t.Helper()
	source = watch.NewFakeWithOptions(watch.FakeOptions{})
	s := o.Storage(&fakeStorage{watches: filled(source)}, &corev1.Pod{})
	out, err := s.Watch(t.Context(), "/pods", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Stop)
	return source, out
}

func filled(w watch.Interface) chan watch.Interface {
	c := make(chan watch.Interface, 1)
	c <- w
	return c
}

// version is the pod a in one of its versions.
func version(v int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "default", ResourceVersion: fmt.Sprint(v), Labels: map[string]string{"app": "web"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Args: []string{"a", "b"}}, {Name: "two"}}},
	}
}

// sent returns the event as the watch tells it.
func sent(t *testing.T, source *watch.FakeWatcher, out watch.Interface, typ watch.EventType, obj runtime.Object) *corev1.Pod {
	t.Helper()
	source.Action(typ, obj)
	e := <-out.ResultChan()
	if e.Type != typ || e.Object != obj {
		t.Fatalf("told %s %v, want %s %v", e.Type, e.Object, typ, obj)
	}
	if w, ok := obj.(timed); ok {
		obj = w.Object
	}
	p, _ := obj.(*corev1.Pod)
	return p
}

func sameSpec(a, b *corev1.Pod) bool { return &a.Spec.Containers[0] == &b.Spec.Containers[0] }

// TestStorage: what a watch tells shares memory with the version before, and with what was made alike, until it is gone.
func TestStorage(t *testing.T) {
	t.Parallel()
	var o Objects
	source, out := begin(t, &o, storage.ListOptions{})
	first := sent(t, source, out, watch.Added, version(1))
	second := sent(t, source, out, watch.Modified, timed{version(2)})
	if !sameSpec(first, second) {
		t.Error("two versions of a pod do not share what they have in common")
	}
	twin := version(3)
	twin.Name = "b"
	if sent(t, source, out, watch.Added, twin); !sameSpec(first, twin) {
		t.Error("two pods of one template do not share what they have in common")
	}
	sent(t, source, out, watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "4"}})
	sent(t, source, out, watch.Error, &metav1.Status{Reason: metav1.StatusReasonExpired})
	sent(t, source, out, watch.Deleted, version(5))
	sent(t, source, out, watch.Deleted, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: twin.Namespace}})
	if again := sent(t, source, out, watch.Added, version(6)); sameSpec(first, again) {
		t.Error("a pod shares memory with one that is gone")
	}
}

// TestStorage_Again: a watch that tells all from the start does not tell what has gone meanwhile.
func TestStorage_Again(t *testing.T) {
	t.Parallel()
	var o Objects
	source, out := begin(t, &o, storage.ListOptions{})
	first := sent(t, source, out, watch.Added, version(1))
	resumed, out := begin(t, &o, storage.ListOptions{SendInitialEvents: new(false)})
	if next := sent(t, resumed, out, watch.Modified, version(2)); !sameSpec(first, next) {
		t.Error("nothing is known any more after a watch that goes on")
	}
	anew, out := begin(t, &o, storage.ListOptions{SendInitialEvents: new(true)})
	if next := sent(t, anew, out, watch.Added, version(3)); sameSpec(first, next) {
		t.Error("objects are known that may have gone")
	}
}

// TestStorage_List: watch caches that cannot begin with a watch begin with a list, which has all there is in its pages.
func TestStorage_List(t *testing.T) {
	t.Parallel()
	var o Objects
	source, out := begin(t, &o, storage.ListOptions{})
	gone := version(1)
	gone.Name = "gone"
	sent(t, source, out, watch.Added, gone)
	twin := version(3)
	twin.Name = "b"
	s := o.Storage(&fakeStorage{pages: [][]corev1.Pod{{*version(2)}, {*twin}}}, &corev1.Pod{})
	var first, second corev1.PodList
	more := storage.ListOptions{Predicate: storage.SelectionPredicate{Continue: "more"}}
	if err := errors.Join(s.GetList(t.Context(), "/pods", storage.ListOptions{}, &first), s.GetList(t.Context(), "/pods", more, &second)); err != nil {
		t.Fatal(err)
	}
	if !sameSpec(&first.Items[0], &second.Items[0]) {
		t.Error("pods of a list do not share what they have in common")
	}
	for _, p := range []*corev1.Pod{&first.Items[0], &second.Items[0]} {
		if got, err := o.Transform(p.DeepCopy()); got != any(p) || err != nil {
			t.Errorf("a copy of a listed pod is %p, %v, want %p", got, err, p)
		}
	}
	if copied := gone.DeepCopy(); sameSpec(gone, &first.Items[0]) {
		t.Error("a pod shares memory with one that is gone")
	} else if got, _ := o.Transform(copied); got != any(copied) {
		t.Error("a pod that is gone is kept")
	}
	if err := s.GetList(t.Context(), "/pods", storage.ListOptions{}, &first); err == nil {
		t.Error("a list that failed counts as begun")
	}
	if got, _ := o.Transform(first.Items[0].DeepCopy()); got != any(&first.Items[0]) {
		t.Error("a list that failed has objects forgotten")
	}
}

// TestStorage_Untyped: custom resources of all kinds are of one type, and are left alone.
func TestStorage_Untyped(t *testing.T) {
	t.Parallel()
	plain := &fakeStorage{}
	if s := new(Objects).Storage(plain, &unstructured.Unstructured{}); s != storage.Interface(plain) {
		t.Error("the storage of custom resources is wrapped")
	}
	if _, err := new(Objects).Storage(plain, &corev1.Pod{}).Watch(t.Context(), "/pods", storage.ListOptions{}); err == nil {
		t.Error("a watch that failed counts as begun")
	}
}

// TestStorage_Ends: nothing is left of a watch that has been stopped while it had more to say than anybody asks for, and the end of one
// is told.
func TestStorage_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Objects
		source, out := begin(t, &o, storage.ListOptions{})
		source.Stop()
		if _, open := <-out.ResultChan(); open {
			t.Error("an event after the end")
		}

		many := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 100})
		for i := range 100 {
			many.Add(version(i))
		}
		out, err := o.Storage(&fakeStorage{watches: filled(many)}, &corev1.Pod{}).Watch(t.Context(), "/pods", storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		out.Stop()
		out.Stop()
		for range out.ResultChan() { // until it is closed
		}
	})
}

// TestTransform: informers get the watch cache's own object if theirs says the same. Nothing that somebody else may have is changed.
func TestTransform(t *testing.T) {
	t.Parallel()
	var o Objects
	source, out := begin(t, &o, storage.ListOptions{})
	kept := sent(t, source, out, watch.Added, version(1))
	for range 2 { // informers do it twice
		if got, err := o.Transform(version(1)); got != any(kept) || err != nil {
			t.Errorf("another copy of what is kept is %p, %v, want %p", got, err, kept)
		}
	}
	if got, err := o.Transform(kept); got != any(kept) || err != nil {
		t.Errorf("what is kept is %p, %v, want %p", got, err, kept)
	}
	unkept := version(1)
	unkept.Name = "b"
	for name, p := range map[string]*corev1.Pod{"an earlier version": version(0), "a pod that is not kept": unkept} {
		before := p.DeepCopy()
		if got, err := o.Transform(p); got != any(p) || err != nil {
			t.Errorf("%s is %v, %v", name, got, err)
		}
		if diff := cmp.Diff(before, p); diff != "" || sameSpec(kept, p) {
			t.Errorf("%s has changed: -before +after\n%s", name, diff)
		}
	}
	sent(t, source, out, watch.Modified, version(2))
	if got, err := o.Transform(kept); got != any(kept) || err != nil {
		t.Errorf("what was kept before is %v, %v", got, err)
	}
	if diff := cmp.Diff(version(1), kept); diff != "" {
		t.Errorf("what was kept before has changed: -want +got\n%s", diff)
	}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	if got, err := o.Transform(other); got != any(other) || err != nil || other.ManagedFields != nil {
		t.Errorf("an object of a kind that is not kept is %v, %v, with its managed fields", got, err)
	}
	for _, obj := range []any{cache.DeletedFinalStateUnknown{Key: "a"}, "text"} {
		if got, err := o.Transform(obj); got != obj || err != nil {
			t.Errorf("%v is %v, %v", obj, got, err)
		}
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// stores are those of pods.
type stores [][]Store

func (s stores) Of(gvk schema.GroupVersionKind) [][]Store {
	if gvk != podKind {
		return nil
	}
	return s
}

func newStore() toolscache.Store {
	return toolscache.NewStore(toolscache.DeletionHandlingMetaNamespaceKeyFunc)
}

func pod(name string, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: strconv.Itoa(version)}}
}

// server is an API server whose writes get the versions from 100 on.
type server struct {
	client.WithWatch
	// fate, if set, says what becomes of a write: whether it is done, and what is answered.
	fate func() (done bool, answer error)
}

func newServer(present ...client.Object) *server {
	s := &server{}
	under := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(present...).WithGlobalResourceVersionCounter().Build()
	do := func(write func() error) error {
		if s.fate == nil {
			return write()
		}
		done, answer := s.fate()
		if done {
			if err := write(); err != nil {
				return err
			}
		}
		return answer
	}
	s.WithWatch = interceptor.NewClient(under, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return do(func() error {
				created := obj.DeepCopyObject().(client.Object)
				if created.GetName() == "" {
					created.SetName(created.GetGenerateName() + "generated")
				}
				if err := c.Create(ctx, created, opts...); err != nil || s.fate != nil {
					return err
				}
				obj.SetName(created.GetName())
				obj.SetResourceVersion(created.GetResourceVersion())
				return nil
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return do(func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return do(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return do(func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return do(func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
			return do(func() error { return c.SubResource(sub).Create(ctx, obj, body, opts...) })
		},
		// The fake client knows no field selectors without an index.
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := (&client.ListOptions{}).ApplyOptions(opts)
			if options.FieldSelector == nil {
				return c.List(ctx, list, opts...)
			}
			name, _ := options.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
			found := &metav1.PartialObjectMetadata{}
			found.SetGroupVersionKind(podKind)
			err := c.Get(ctx, client.ObjectKey{Namespace: options.Namespace, Name: name}, found)
			if err == nil {
				list.(*metav1.PartialObjectMetadataList).Items = []metav1.PartialObjectMetadata{*found}
			}
			return client.IgnoreNotFound(err)
		},
	})
	return s
}

// version returns the version of a pod.
func (s *server) version(t *testing.T, name string) string {
	t.Helper()
	var p corev1.Pod
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &p); err != nil {
		t.Fatal(err)
	}
	return p.ResourceVersion
}

// passes runs write in the first pass and counts those that begin.
type passes struct {
	write func(context.Context) error
	begun int
}

func (p *passes) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	p.begun++
	if p.begun == 1 {
		return reconcile.Result{}, p.write(ctx)
	}
	return reconcile.Result{}, nil
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
}

// holdsBack tells whether a pass is held back.
func holdsBack(t *testing.T, r reconcile.Reconciler, inner *passes) bool {
	t.Helper()
	before := inner.begun
	result, err := r.Reconcile(t.Context(), request("web"))
	if err != nil {
		t.Fatal(err)
	}
	held := inner.begun == before
	if held != (result.RequeueAfter > 0) {
		t.Fatalf("held back: %t, result %+v", held, result)
	}
	return held
}

// TestBarrier_Write tells when the next pass may begin after a write that was answered.
func TestBarrier_Write(t *testing.T) {
	metadataOnly := func(name string) *metav1.PartialObjectMetadata {
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		m.SetGroupVersionKind(podKind)
		return m
	}
	labelled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	for name, write := range map[string]func(context.Context, *Client) error{
		"create": func(ctx context.Context, c *Client) error {
			return c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "new"}})
		},
		"update": func(ctx context.Context, c *Client) error {
			return c.Update(ctx, &corev1.Pod{ObjectMeta: pod("p", 0).ObjectMeta})
		},
		"status":         func(ctx context.Context, c *Client) error { return c.Status().Update(ctx, pod("p", 0)) },
		"patch":          func(ctx context.Context, c *Client) error { return c.Patch(ctx, pod("p", 0), labelled) },
		"metadata patch": func(ctx context.Context, c *Client) error { return c.Patch(ctx, metadataOnly("p"), labelled) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}})
			current := s.version(t, "p")
			unversioned := interceptor.NewClient(s.WithWatch, interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
					obj.SetResourceVersion(current)
					return c.Update(ctx, obj, opts...)
				},
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
					obj.SetResourceVersion(current)
					return c.SubResource(sub).Update(ctx, obj, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					obj.SetResourceVersion("")
					return c.Patch(ctx, obj, patch, opts...)
				},
			})
			typed, metadata := newStore(), newStore()
			typed.Bookmark("1")
			metadata.Bookmark("1")
			c := NewClient(unversioned, nil)
			inner := &passes{write: func(ctx context.Context) error { return write(ctx, c) }}
			r := NewBarrier(stores{{typed}, {metadata}}, s).PerRequest(inner)
			if holdsBack(t, r, inner) {
				t.Fatal("the first pass is held back")
			}
			if !holdsBack(t, r, inner) {
				t.Error("a pass begins before the cache has what was written")
			}
			metadata.Bookmark("1000")
			if !holdsBack(t, r, inner) {
				t.Error("a watch of metadata releases a pass that reads whole objects")
			}
			typed.Bookmark("1000")
			if holdsBack(t, r, inner) {
				t.Error("a pass is held back though the cache has all")
			}
		})
	}
}

// TestBarrier_Deletion tells when the next pass may begin after a deletion: its answer has no version.
func TestBarrier_Deletion(t *testing.T) {
	del := func(ctx context.Context, c *Client) error {
		return c.Delete(ctx, pod("p", 0), client.Preconditions{UID: new(types.UID("p"))})
	}
	for name, tt := range map[string]struct {
		delete func(context.Context, *Client) error
		event  func(toolscache.Store) error
	}{
		"gone": {del, func(s toolscache.Store) error { return s.Delete(pod("p", 2)) }},
		"gone, the last state is not known": {del, func(s toolscache.Store) error {
			return s.Delete(toolscache.DeletedFinalStateUnknown{Key: "ns/p", Obj: pod("p", 1)})
		}},
		"gone, after a new list": {del, func(s toolscache.Store) error { return s.Replace(nil, "7") }},
		"replaced": {del, func(s toolscache.Store) error {
			p := pod("p", 3)
			p.UID = "another"
			return s.Update(p)
		}},
		"being deleted": {del, func(s toolscache.Store) error {
			p := pod("p", 3)
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			return s.Update(p)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}})
			store := newStore()
			if err := store.Add(pod("p", 1)); err != nil {
				t.Fatal(err)
			}
			c := NewClient(s, nil)
			inner := &passes{write: func(ctx context.Context) error { return tt.delete(ctx, c) }}
			r := NewBarrier(stores{{store}}, s).PerRequest(inner)
			holdsBack(t, r, inner)
			store.Bookmark("1000")
			if !holdsBack(t, r, inner) {
				t.Error("a pass begins while the cache has what was deleted")
			}
			if err := tt.event(store); err != nil {
				t.Fatal(err)
			}
			if holdsBack(t, r, inner) {
				t.Error("a pass is held back though the cache knows of the deletion")
			}
		})
	}
}

// TestBarrier_Parts tells when a kind of which each part has an informer of its own is far enough.
func TestBarrier_Parts(t *testing.T) {
	for name, tt := range map[string]struct {
		versions [2]string
		held     *corev1.Pod // by the second one
		want     bool
	}{
		"both are as far":                           {[2]string{"20", "10"}, nil, true},
		"only another part is as far":               {[2]string{"20", "5"}, nil, false},
		"another part is as far, this has it older": {[2]string{"20", "5"}, pod("p", 5), false},
		"this part has it":                          {[2]string{"5", "10"}, pod("p", 10), true},
		"there was no list yet":                     {[2]string{"20", ""}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []Store
			for i, version := range tt.versions {
				s := newStore()
				if i == 1 && tt.held != nil {
					if err := s.Add(tt.held); err != nil {
						t.Fatal(err)
					}
				}
				s.Bookmark(version)
				parts = append(parts, s)
			}
			w := write{kind: podKind, key: types.NamespacedName{Namespace: "ns", Name: "p"}, version: "10"}
			if got := w.isIn([][]Store{parts}); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestBarrier_LostAnswer tells what holds a pass back after a write of which nobody knows whether it was done.
func TestBarrier_LostAnswer(t *testing.T) {
	owned := func(name string, owner types.UID) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
		p.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: new(true)}}
		return p
	}
	generated := func() *corev1.Pod {
		p := owned("", "web")
		p.GenerateName = "web-"
		return p
	}
	for name, tt := range map[string]struct {
		write func(context.Context, *Client) error
		// waitsFor is the pod whose version the cache has to have if the write was done, forgets the one that it must not have.
		waitsFor, forgets string
	}{
		"create": {func(ctx context.Context, c *Client) error { return c.Create(ctx, generated()) }, "web-generated", ""},
		"create by name": {func(ctx context.Context, c *Client) error {
			p := owned("mine", "web")
			p.UID = ""
			return c.Create(ctx, p)
		}, "mine", ""},
		"update": {func(ctx context.Context, c *Client) error {
			p := owned("old", "web")
			p.Labels["app"] = "other"
			return c.Update(ctx, p)
		}, "old", ""},
		"patch": {func(ctx context.Context, c *Client) error {
			return c.Patch(ctx, owned("old", "web"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}, "old", ""},
		"status": {func(ctx context.Context, c *Client) error {
			p := owned("old", "web")
			p.Status.Phase = corev1.PodFailed
			return c.Status().Update(ctx, p)
		}, "old", ""},
		"delete": {func(ctx context.Context, c *Client) error { return c.Delete(ctx, owned("old", "web")) }, "", "old"},
	} {
		for fate, done := range map[string]bool{"done": true, "not done": false} {
			t.Run(name+" "+fate, func(t *testing.T) {
				s := newServer(owned("old", "web"), owned("foreign", "another"))
				store := newStore()
				if err := store.Add(owned("old", "web")); err != nil {
					t.Fatal(err)
				}
				// The cache has all that there was before.
				store.Bookmark(s.version(t, "foreign"))
				s.fate = func() (bool, error) { return done, io.ErrUnexpectedEOF }
				c := NewClient(s, nil)
				inner := &passes{write: func(ctx context.Context) error { return tt.write(ctx, c) }}
				silent := true
				live := interceptor.NewClient(s.WithWatch, interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if silent {
							return errors.New("nobody answers")
						}
						return c.List(ctx, list, opts...)
					},
				})
				r := NewBarrier(stores{{store}}, live).PerRequest(inner)
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // the end of the context must not keep anybody from looking later
				if _, err := r.Reconcile(ctx, request("web")); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("the write answers %v", err)
				}
				if _, err := r.Reconcile(t.Context(), request("web")); err == nil || inner.begun > 1 {
					t.Fatalf("a pass begins although nobody tells what became of the write: %v", err)
				}
				silent = false
				if held := holdsBack(t, r, inner); held != done {
					t.Fatalf("held back: %t", held)
				}
				if !done {
					return
				}
				if tt.waitsFor != "" {
					store.Bookmark(s.version(t, tt.waitsFor))
				} else if err := store.Delete(owned(tt.forgets, "web")); err != nil {
					t.Fatal(err)
				}
				if holdsBack(t, r, inner) {
					t.Error("held back though the cache has all")
				}
			})
		}
	}
}

// TestBarrier_NotCached writes what is in no cache, and some of which cannot be listed.
func TestBarrier_NotCached(t *testing.T) {
	for name, answer := range map[string]error{"answered": nil, "answer lost": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			s.fate = func() (bool, error) { return false, answer }
			c := NewClient(s, nil)
			inner := &passes{write: func(ctx context.Context) error { return c.Create(ctx, &authorizationv1.SubjectAccessReview{}) }}
			r := NewBarrier(stores{{newStore()}}, interceptor.NewClient(s.WithWatch, interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return errors.New("it was listed")
				},
			})).PerRequest(inner)
			if _, err := r.Reconcile(t.Context(), request("web")); !errors.Is(err, answer) {
				t.Fatal(err)
			}
			if holdsBack(t, r, inner) {
				t.Error("held back by what is in no cache")
			}
		})
	}
}

// TestBarrier_Eviction counts an eviction as a deletion.
func TestBarrier_Eviction(t *testing.T) {
	for name, lost := range map[string]bool{"answered": false, "answer lost": true} {
		t.Run(name, func(t *testing.T) {
			s := newServer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}})
			store := newStore()
			if err := store.Add(pod("p", 1)); err != nil {
				t.Fatal(err)
			}
			if lost {
				s.fate = func() (bool, error) { return true, io.ErrUnexpectedEOF }
			}
			c := NewClient(s, nil)
			inner := &passes{write: func(ctx context.Context) error {
				return c.SubResource("eviction").Create(ctx, pod("p", 1), evictionOf("p"))
			}}
			r := NewBarrier(stores{{store}}, s).PerRequest(inner)
			if _, err := r.Reconcile(t.Context(), request("web")); lost != (err != nil) {
				t.Fatal(err)
			}
			store.Bookmark("1000")
			if !holdsBack(t, r, inner) {
				t.Error("a pass begins while the cache has what was evicted")
			}
		})
	}
}

// TestBarrier_Requests tells which passes a write holds back.
func TestBarrier_Requests(t *testing.T) {
	for name, tt := range map[string]struct {
		reconciler func(*Barrier, reconcile.Reconciler) reconcile.Reconciler
		other      bool
	}{
		"per request": {(*Barrier).PerRequest, false},
		"for all":     {(*Barrier).ForAll, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := newServer(), newStore()
			c := NewClient(s, nil)
			inner := &passes{write: func(ctx context.Context) error {
				return c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
			}}
			r := tt.reconciler(NewBarrier(stores{{store}}, s), inner)
			holdsBack(t, r, inner)
			result, err := r.Reconcile(t.Context(), request("another"))
			if err != nil || (result.RequeueAfter > 0) != tt.other {
				t.Errorf("the pass for another request is held back: %+v, %v", result, err)
			}
			// Twice the time for each try, up to a second.
			var last time.Duration
			for range 20 {
				result, err := r.Reconcile(t.Context(), request("web"))
				if err != nil || result.RequeueAfter < last || result.RequeueAfter > maxDelay {
					t.Fatalf("after %v: %+v, %v", last, result, err)
				}
				last = result.RequeueAfter
			}
			if last != maxDelay {
				t.Errorf("at last tries after %v", last)
			}
			store.Bookmark("1000")
			if holdsBack(t, r, inner) {
				t.Error("held back though the cache has all")
			}
		})
	}
}

// TestBarrier_Forgets has many requests that write once and never come again.
func TestBarrier_Forgets(t *testing.T) {
	store := newStore()
	version := 0
	r := NewBarrier(stores{{store}}, nil).PerRequest(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		version++
		note(ctx, write{kind: podKind, key: req.NamespacedName, version: strconv.Itoa(version)})
		return reconcile.Result{}, nil
	})).(*reconciler)
	most := 0
	for i := range 20 * sweepSize {
		if _, err := r.Reconcile(t.Context(), request(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		store.Bookmark(strconv.Itoa(i)) // one behind
		most = max(most, len(r.pending))
	}
	if most > 2*sweepSize {
		t.Errorf("remembers %d passes", most)
	}
}

// TestBarrier_ManyWriters has a pass that writes in many goroutines, as those do that create many pods.
func TestBarrier_ManyWriters(t *testing.T) {
	s, store := newServer(), newStore()
	c := NewClient(s, nil)
	inner := &passes{write: func(ctx context.Context) error {
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(i)}}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return nil
	}}
	r := NewBarrier(stores{{store}}, s).PerRequest(inner)
	holdsBack(t, r, inner)
	store.Bookmark("49")
	if !holdsBack(t, r, inner) {
		t.Error("a pass begins before the cache has the last one")
	}
	store.Bookmark("50")
	if holdsBack(t, r, inner) {
		t.Error("held back though the cache has all")
	}
}

// TestClient_OutsideOfPass writes nothing down.
func TestClient_OutsideOfPass(t *testing.T) {
	c := NewClient(newServer(), nil)
	if err := c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAllOf(t.Context(), &corev1.Pod{}); err == nil {
		t.Error("deletes all")
	}
}

// BenchmarkBarrier is what the barrier costs a pass that creates 500 pods: their notes, and the next pass that is held back once
// and then begins.
func BenchmarkBarrier(b *testing.B) {
	store := newStore()
	noted := []write{}
	for i := range 500 {
		noted = append(noted, write{kind: podKind, key: types.NamespacedName{Namespace: "ns", Name: "web-" + strconv.Itoa(i)}, version: strconv.Itoa(1000 + i)})
	}
	r := NewBarrier(stores{{store}}, nil).PerRequest(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		if req.Name == "web" {
			for _, w := range noted {
				note(ctx, w)
			}
		}
		return reconcile.Result{}, nil
	}))
	b.ReportAllocs()
	for b.Loop() {
		for _, version := range []string{"1499", "1000", "1499"} {
			store.Bookmark(version)
			if _, err := r.Reconcile(b.Context(), request("web")); err != nil {
				b.Fatal(err)
			}
		}
	}
}

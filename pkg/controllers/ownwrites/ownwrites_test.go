// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// informers has one informer, which tells its handler what a test says.
type informers struct {
	cache.Informers
	cache.Informer // that of all kinds
	handler        toolscache.ResourceEventHandler
}

func (i *informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i, nil
}

func (i *informers) GetInformerForKind(context.Context, schema.GroupVersionKind, ...cache.InformerGetOption) (cache.Informer, error) {
	return i.Informer, nil
}

func (i *informers) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return registration{}, nil
}

type registration struct{}

func (registration) HasSynced() bool                          { return true }
func (registration) HasSyncedChecker() toolscache.DoneChecker { return registration{} }
func (registration) Name() string                             { return "test" }
func (registration) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// setUp returns a client whose cache is what a test puts into stale, and whose writes get the versions from 100 on.
func setUp(t *testing.T, present ...client.Object) (c *Client, stale client.WithWatch, events *informers) {
	t.Helper()
	stale = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithRESTMapper(mapper()).WithObjects(present...).Build()
	version := 99
	written := func(obj client.Object) error {
		version++
		obj.SetResourceVersion(strconv.Itoa(version))
		return nil
	}
	writes := interceptor.NewClient(stale, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			return written(obj)
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, obj client.Object, _ ...client.SubResourceUpdateOption) error {
			return written(obj)
		},
	})
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var deletions []runtime.Object
	for _, obj := range present {
		deletions = append(deletions, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()},
		})
	}
	events = &informers{}
	return NewClient(writes, metadata.Interface(metadatafake.NewSimpleMetadataClient(scheme, deletions...)), NewObservers(events)), stale, events
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	return m
}

func pod(name string, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: strconv.Itoa(version)}}
}

// waits tells whether read is still waiting after a moment.
func waits(t *testing.T, read func(context.Context) error) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := read(ctx)
	if client.IgnoreNotFound(err) != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return errors.Is(err, context.DeadlineExceeded)
}

func get(c client.Client, name string, opts ...client.GetOption) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.Get(ctx, client.ObjectKey{Namespace: "ns", Name: name}, &corev1.Pod{}, opts...)
	}
}

func list(c client.Client) func(context.Context) error {
	return func(ctx context.Context) error { return c.List(ctx, &corev1.PodList{}) }
}

func TestClient_Write(t *testing.T) {
	for name, write := range map[string]func(*Client) error{
		"create": func(c *Client) error {
			return c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
		},
		"status": func(c *Client) error { return c.Status().Update(t.Context(), pod("p", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			c, _, events := setUp(t)
			if waits(t, list(c)) {
				t.Error("a read waits, though nothing was written")
			}
			if err := write(c); err != nil {
				t.Fatal(err)
			}
			events.handler.OnUpdate(nil, pod("other", 99))
			if !waits(t, list(c)) || !waits(t, get(c, "p")) {
				t.Error("a read does not wait for what was written")
			}
			if waits(t, get(c, "other")) {
				t.Error("a read of another object waits")
			}
			if waits(t, get(c, "p", client.DisableReadYourWritesConsistency)) {
				t.Error("a read waits that must not")
			}
			events.handler.OnAdd(pod("p", 100), false)
			if waits(t, get(c, "p")) || waits(t, list(c)) {
				t.Error("a read waits for what the cache has")
			}
			if len(c.writes[corev1.SchemeGroupVersion.WithKind("Pod")]) > 0 {
				t.Errorf("remembers %v", c.writes)
			}
		})
	}
}

func TestClient_Delete(t *testing.T) {
	for name, change := range map[string]func(client.Client, *corev1.Pod) error{
		"gone": func(stale client.Client, p *corev1.Pod) error { return stale.Delete(t.Context(), p) },
		"replaced": func(stale client.Client, p *corev1.Pod) error {
			p.UID = "new"
			return stale.Update(t.Context(), p)
		},
		"being deleted": func(stale client.Client, p *corev1.Pod) error {
			p.Finalizers = []string{"test/stay"}
			return errors.Join(stale.Update(t.Context(), p), stale.Delete(t.Context(), p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, stale, events := setUp(t, pod("p", 1))
			p := pod("p", 1)
			if err := c.Delete(t.Context(), p, client.Preconditions{UID: &p.UID}); err != nil {
				t.Fatal(err)
			}
			if !waits(t, list(c)) || !waits(t, get(c, "p")) {
				t.Error("a read does not wait for the deletion")
			}
			done := make(chan error)
			go func() { done <- list(c)(t.Context()) }()
			var known corev1.Pod
			if err := get(stale, "p")(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := stale.Get(t.Context(), client.ObjectKeyFromObject(p), &known); err != nil {
				t.Fatal(err)
			}
			if err := change(stale, &known); err != nil {
				t.Fatal(err)
			}
			events.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: p})
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A controller that never reads what it writes must not remember it for ever.
func TestClient_Prune(t *testing.T) {
	c, _, events := setUp(t)
	for i := range 2 * many {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strconv.Itoa(i)}}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		events.handler.OnAdd(p, false)
	}
	if n := len(c.writes[corev1.SchemeGroupVersion.WithKind("Pod")]); n > many {
		t.Errorf("remembers %d writes", n)
	}
}

func TestPeek(t *testing.T) {
	c, stale, _ := setUp(t, pod("known", 1))
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
		toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
		"field:app": func(obj any) ([]string, error) {
			p := obj.(*corev1.Pod)
			return []string{p.Namespace + "/" + p.Labels["app"], "__all_namespaces/" + p.Labels["app"]}, nil
		},
	})
	for _, place := range []string{"ns/web", "ns/db", "other/web"} {
		namespace, app, _ := strings.Cut(place, "/")
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Labels: map[string]string{"app": app}}}
		if err := indexer.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	c.observers = NewObservers(&informers{Informer: shared{indexer: indexer}})
	c.observers.kinds[corev1.SchemeGroupVersion.WithKind("Pod")] = &observer{isListening: true}
	for name, tt := range map[string]struct {
		reader client.Reader
		opts   []client.ListOption
		want   []string
	}{
		"all":                   {c, nil, []string{"ns/db", "ns/web", "other/web"}},
		"namespace":             {c, []client.ListOption{client.InNamespace("ns")}, []string{"ns/db", "ns/web"}},
		"labels":                {c, []client.ListOption{client.MatchingLabels{"app": "web"}}, []string{"ns/web", "other/web"}},
		"field":                 {c, []client.ListOption{client.MatchingFields{"app": "web"}}, []string{"ns/web", "other/web"}},
		"field in a namespace":  {c, []client.ListOption{client.MatchingFields{"app": "web"}, client.InNamespace("ns")}, []string{"ns/web"}},
		"another reader":        {stale, []client.ListOption{client.InNamespace("ns")}, []string{"ns/known"}},
		"labels without a pod":  {c, []client.ListOption{client.MatchingLabels{"app": "x"}}, nil},
		"another reader, empty": {stale, []client.ListOption{client.InNamespace("x")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Peek[*corev1.Pod](t.Context(), tt.reader, &corev1.PodList{}, tt.opts...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range found {
				got = append(got, p.Namespace+"/"+p.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", got, tt.want)
			}
		})
	}
	if err := c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "new"}}); err != nil {
		t.Fatal(err)
	}
	if !waits(t, func(ctx context.Context) error {
		_, err := Peek[*corev1.Pod](ctx, c, &corev1.PodList{})
		return err
	}) {
		t.Error("does not wait for what was written")
	}
}

// shared is an informer that can be looked into.
type shared struct {
	toolscache.SharedIndexInformer
	indexer toolscache.Indexer
}

func (s shared) GetIndexer() toolscache.Indexer { return s.indexer }

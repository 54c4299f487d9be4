// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informers has one informer for all kinds.
type informers struct {
	cache.Informers
	informer cache.Informer
}

func (i informers) GetInformerForKind(context.Context, schema.GroupVersionKind, ...cache.InformerGetOption) (cache.Informer, error) {
	return i.informer, nil
}

// shared is an informer that can be looked into.
type shared struct {
	toolscache.SharedIndexInformer
	indexer toolscache.Indexer
}

func (s shared) GetIndexer() toolscache.Indexer { return s.indexer }

func TestPeek(t *testing.T) {
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
	s := newServer(pod("known", 1))
	c := NewClient(s, informers{informer: shared{indexer: indexer}})
	severalParts := NewClient(s, informers{})
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
		"another reader":        {s, []client.ListOption{client.InNamespace("ns")}, []string{"ns/known"}},
		"several parts":         {severalParts, []client.ListOption{client.InNamespace("ns")}, []string{"ns/known"}},
		"labels without a pod":  {c, []client.ListOption{client.MatchingLabels{"app": "x"}}, nil},
		"another reader, empty": {s, []client.ListOption{client.InNamespace("x")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time it is known where to look
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
			}
		})
	}
}

func TestEnqueueFor(t *testing.T) {
	s := newServer(pod("a", 1), pod("b", 1))
	got := EnqueueFor(t.Context(), s, &corev1.PodList{}, func(p *corev1.Pod) bool { return p.Name == "b" }, client.InNamespace("ns"))
	if len(got) != 1 || got[0].Name != "b" {
		t.Errorf("got %v", got)
	}
}

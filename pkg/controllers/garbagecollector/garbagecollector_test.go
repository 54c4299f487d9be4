// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
)

var configMaps = Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"}

func owner(name string, blocking bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID(name), BlockOwnerDeletion: new(blocking)}
}

// object returns an object whose UID is its name.
func object(name string, owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), OwnerReferences: owners},
	}
}

func deleting(obj *metav1.PartialObjectMetadata, finalizer string) *metav1.PartialObjectMetadata {
	obj = obj.DeepCopy()
	obj.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
	obj.Finalizers = []string{finalizer}
	return obj
}

func render(tasks []Task) string {
	var items []string
	for _, task := range tasks {
		item := string(task.UID)
		if task.Orphan {
			item += "(orphan)"
		}
		items = append(items, item)
	}
	slices.Sort(items)
	return strings.Join(slices.Compact(items), " ")
}

func TestGraph(t *testing.T) {
	tests := []struct {
		name  string
		known []*metav1.PartialObjectMetadata
		do    func(*Graph) []Task
		want  string
	}{
		{name: "no owner", do: func(g *Graph) []Task { return g.Observe(configMaps, object("a")) }},
		{name: "known owner", known: []*metav1.PartialObjectMetadata{object("a")}, do: func(g *Graph) []Task { return g.Observe(configMaps, object("b", owner("a", false))) }},
		{name: "unknown owner", do: func(g *Graph) []Task { return g.Observe(configMaps, object("b", owner("a", false))) }, want: "b"},
		{name: "owner goes", known: []*metav1.PartialObjectMetadata{object("a"), object("b", owner("a", false))}, do: func(g *Graph) []Task { return g.Forget("a") }, want: "b"},
		{name: "foreground", known: []*metav1.PartialObjectMetadata{object("a"), object("b", owner("a", true))}, do: func(g *Graph) []Task {
			return g.Observe(configMaps, deleting(object("a"), metav1.FinalizerDeleteDependents))
		}, want: "a b"},
		{name: "orphan", known: []*metav1.PartialObjectMetadata{object("a"), object("b", owner("a", true))}, do: func(g *Graph) []Task {
			return g.Observe(configMaps, deleting(object("a"), metav1.FinalizerOrphanDependents))
		}, want: "a(orphan)"},
		{
			name: "last dependent of a waiting owner", known: []*metav1.PartialObjectMetadata{deleting(object("a"), metav1.FinalizerDeleteDependents), object("b", owner("a", true))},
			do: func(g *Graph) []Task { return g.Forget("b") }, want: "a",
		},
		{
			name: "blocking reference dropped", known: []*metav1.PartialObjectMetadata{deleting(object("a"), metav1.FinalizerDeleteDependents), object("b", owner("a", true))},
			do: func(g *Graph) []Task { return g.Observe(configMaps, object("b")) }, want: "a",
		},
		{
			name: "owner of another name", known: []*metav1.PartialObjectMetadata{object("b", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "a"})},
			do: func(g *Graph) []Task { return g.Observe(configMaps, object("a")) }, want: "b",
		},
		{name: "not in the list any more", known: []*metav1.PartialObjectMetadata{object("a"), object("b", owner("a", false))}, do: func(g *Graph) []Task { return g.Retain(configMaps, map[types.UID]struct{}{"b": {}}) }, want: "b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewGraph()
			for _, obj := range tt.known {
				g.Observe(configMaps, obj)
			}
			if got := render(tt.do(g)); got != tt.want {
				t.Errorf("tasks %q, want %q", got, tt.want)
			}
		})
	}
}

func TestGraph_LeavesNothingBehind(t *testing.T) {
	g := NewGraph()
	g.Observe(configMaps, object("b", owner("a", true)))
	g.Observe(configMaps, object("a"))
	g.Forget("b")
	g.Forget("a")
	if len(g.nodes) != 0 || len(g.dependents) != 0 {
		t.Errorf("nodes %v, dependents %v", g.nodes, g.dependents)
	}
}

func TestDecide(t *testing.T) {
	one := []metav1.OwnerReference{owner("a", true)}
	tests := []struct {
		name       string
		owners     owners
		dependents []Dependent
		want       Verdict
	}{
		{name: "all owners live", owners: owners{solid: one}, want: Stay},
		{name: "one lives", owners: owners{solid: one, dangling: one}, want: Disown},
		{name: "one lives, one waits", owners: owners{solid: one, waiting: one}, want: Disown},
		{name: "none lives", owners: owners{dangling: one}, want: Delete},
		{name: "owner waits", owners: owners{waiting: one}, want: Delete},
		{name: "owner waits for the whole tree", owners: owners{waiting: one}, dependents: []Dependent{{}}, want: DeleteForeground},
		{name: "circle", owners: owners{waiting: one}, dependents: []Dependent{{Foreground: true}}, want: Unblock},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(tt.owners, tt.dependents); got != tt.want {
				t.Errorf("verdict %v, want %v", got, tt.want)
			}
		})
	}
}

// collector returns a collector over the objects, all observed and all watches up.
func collector(t *testing.T, objects ...*metav1.PartialObjectMetadata) (*Collector, *metadatafake.FakeMetadataClient) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := make([]runtime.Object, len(objects))
	for i := range objects {
		stored[i] = objects[i]
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, stored...)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	c := New(Config{Metadata: client, Mapper: mapper, Events: &record.FakeRecorder{}, Clock: clock, Workers: 1})
	t.Cleanup(c.queue.ShutDown)
	m := c.newMonitor(configMaps)
	c.monitors.running[configMaps.GroupVersionResource] = m
	list := make([]any, len(objects))
	for i := range objects {
		list[i] = objects[i]
	}
	if err := m.Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	return c, client
}

// verbs lists the writes as "verb name".
func verbs(client *metadatafake.FakeMetadataClient) []string {
	var got []string
	for _, action := range client.Actions() {
		switch a := action.(type) {
		case interface{ GetPatch() []byte }:
			got = append(got, "patch "+string(a.GetPatch()))
		case interface{ GetName() string }:
			if action.GetVerb() == "delete" {
				got = append(got, "delete "+a.GetName())
			}
		}
	}
	return got
}

func TestAttempt(t *testing.T) {
	tests := []struct {
		name    string
		objects []*metav1.PartialObjectMetadata
		uid     types.UID
		orphan  bool
		want    []string
	}{
		{name: "owner lives", objects: []*metav1.PartialObjectMetadata{object("a"), object("b", owner("a", true))}, uid: "b"},
		{name: "owner is gone", objects: []*metav1.PartialObjectMetadata{object("b", owner("a", true))}, uid: "b", want: []string{"delete b"}},
		{
			name: "one of two is gone", objects: []*metav1.PartialObjectMetadata{object("c"), object("b", owner("a", false), owner("c", false))}, uid: "b",
			want: []string{`patch {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"c","blockOwnerDeletion":false}],"resourceVersion":"","uid":"b"}}`},
		},
		{name: "blocked", objects: []*metav1.PartialObjectMetadata{deleting(object("a"), metav1.FinalizerDeleteDependents), object("b", owner("a", true))}, uid: "a"},
		{
			name: "not blocked", objects: []*metav1.PartialObjectMetadata{deleting(object("a"), metav1.FinalizerDeleteDependents), object("b", owner("a", false))}, uid: "a",
			want: []string{`patch {"metadata":{"finalizers":[],"resourceVersion":"","uid":"a"}}`},
		},
		{
			name: "orphan", objects: []*metav1.PartialObjectMetadata{deleting(object("a"), metav1.FinalizerOrphanDependents), object("b", owner("a", true))}, uid: "a", orphan: true,
			want: []string{
				`patch {"metadata":{"ownerReferences":[],"resourceVersion":"","uid":"b"}}`,
				`patch {"metadata":{"finalizers":[],"resourceVersion":"","uid":"a"}}`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, client := collector(t, tt.objects...)
			run := c.attempt
			if tt.orphan {
				run = c.orphan
			}
			if err := run(t.Context(), tt.uid); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, verbs(client)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAttempt_Answers is about what the API server says when it does not agree with the watches.
func TestAttempt_Answers(t *testing.T) {
	gr := schema.GroupResource{Resource: "configmaps"}
	unserved := apierrors.NewGenericServerResponse(404, "get", gr, "a", "404 page not found", 0, true)
	for name, tc := range map[string]struct {
		verb      string
		answer    error
		want      []string
		err       error
		forgotten bool
	}{
		"changed since":               {verb: "delete", answer: apierrors.NewConflict(gr, "b", errors.New("changed")), want: []string{"delete b", "delete b"}},
		"gone since":                  {verb: "delete", answer: apierrors.NewNotFound(gr, "b"), want: []string{"delete b"}, forgotten: true},
		"the owner is of no version":  {verb: "get", answer: unserved, err: errNotServed},
		"the object is of no version": {verb: "delete", answer: unserved, want: []string{"delete b"}, err: errNotServed},
	} {
		t.Run(name, func(t *testing.T) {
			c, client := collector(t, object("b", owner("a", true)))
			answers := []error{tc.answer}
			client.PrependReactor(tc.verb, "*", func(clientgotesting.Action) (bool, runtime.Object, error) {
				if len(answers) == 0 {
					return false, nil, nil
				}
				answer := answers[0]
				answers = answers[1:]
				return true, nil, answer
			})
			if err := c.attempt(t.Context(), "b"); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, verbs(client)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if _, known := c.graph.Has("b"); known == tc.forgotten {
				t.Errorf("the object is known: %v", known)
			}
		})
	}
}

// TestMonitor_TellsTheCollector: a definition leads to another look, and an owner that was seen to go is not asked for.
func TestMonitor_TellsTheCollector(t *testing.T) {
	c, client := collector(t, object("a"), object("b", owner("a", true)))
	crds := c.newMonitor(Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}})
	for range 2 {
		if err := crds.Add(object("things.example.com")); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.defined) != 1 {
		t.Error("a definition is no reason to look for resources")
	}
	if err := c.newMonitor(configMaps).Delete(object("a")); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	if err := c.attempt(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if actions := client.Actions(); len(actions) != 1 || actions[0].GetVerb() != "delete" {
		t.Errorf("requests %v", actions)
	}
}

// A watch that has seen an owner go says so only of objects that could name it: one without a namespace cannot name one that
// lives in one, and is left alone. See https://kubernetes.io/docs/concepts/architecture/garbage-collection.
func TestAttempt_OwnerSeenToGo(t *testing.T) {
	for name, tc := range map[string]struct {
		owner, dependent string // their namespaces
		want             []string
		err              error
	}{
		"in the same namespace":           {owner: "ns", dependent: "ns", want: []string{"delete b"}},
		"in another namespace":            {owner: "other", dependent: "ns", want: []string{"delete b"}},
		"a dependent without a namespace": {owner: "ns", err: errUnresolvable},
		"neither has a namespace":         {want: []string{"delete b"}},
	} {
		t.Run(name, func(t *testing.T) {
			namespaces := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"}
			resourceIn := func(namespace string) Resource {
				if namespace == "" {
					return namespaces
				}
				return configMaps
			}
			ref := owner("a", true)
			ref.Kind = resourceIn(tc.owner).Kind
			a, b := object("a"), object("b", ref)
			a.Namespace, b.Namespace = tc.owner, tc.dependent
			a.Kind, b.Kind = resourceIn(tc.owner).Kind, resourceIn(tc.dependent).Kind
			c, client := collector(t)
			if err := client.Tracker().Create(resourceIn(tc.dependent).GroupVersionResource, b, b.Namespace); err != nil {
				t.Fatal(err)
			}
			c.graph.Observe(resourceIn(tc.owner), a)
			c.graph.Observe(resourceIn(tc.dependent), b)
			if err := c.newMonitor(resourceIn(tc.owner)).Delete(a); err != nil {
				t.Fatal(err)
			}
			if err := c.attempt(t.Context(), "b"); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, verbs(client)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollectable(t *testing.T) {
	all := metav1.Verbs{"delete", "list", "watch"}
	got := collectable([]*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Verbs: all}, {Name: "events", Verbs: all}, {Name: "bindings", Verbs: metav1.Verbs{"create"}}}},
		{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "events", Verbs: all}}},
	})
	if diff := cmp.Diff([]Resource{configMaps}, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	deleted = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Name: "ns"}}
)

// terminating returns a namespace that was deleted. The finalizer in its metadata keeps it in the fake API server, so that
// its end can be looked at.
func terminating() *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns", DeletionTimestamp: new(metav1.NewTime(deleted)), Finalizers: []string{"test/stay"}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
	}
}

func object(kind, name string, finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: finalizers},
	}
}

// contents is a metadata client with a delete collection that works as the API server's: what has a finalizer stays.
func contents(t *testing.T, objects ...runtime.Object) (metadata.Interface, *[]string) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	var collections []string
	c.PrependReactor("delete-collection", "*", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		collections = append(collections, action.GetResource().Resource)
		for _, obj := range objects {
			item := obj.(*metav1.PartialObjectMetadata)
			if plural, _ := meta.UnsafeGuessKindToResource(item.GroupVersionKind()); plural == action.GetResource() && len(item.Finalizers) == 0 {
				if err := c.Tracker().Delete(action.GetResource(), "ns", item.Name); err != nil {
					return true, nil, err
				}
			}
		}
		return true, nil, nil
	})
	return c, &collections
}

func reconciler(c client.Client, content metadata.Interface, err error) *Reconciler {
	return &Reconciler{
		Client: c, Live: controllertest.Live(c), Metadata: content, Clock: clocktesting.NewFakePassiveClock(deleted.Add(time.Minute)),
		Discover: func(context.Context) (Resources, error) {
			core := func(name string, collection bool) Resource {
				return Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: name}, Collection: collection, List: true}
			}
			return Resources{Deletable: []Resource{core("configmaps", true), core("pods", true), core("services", false)}}, err
		},
	}
}

func TestReconciler(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{terminating()},
		Request: request,
		New: func(c client.Client) reconcile.Reconciler {
			content, _ := contents(t, object("Pod", "p"), object("ConfigMap", "c"), object("Service", "s"))
			return reconciler(c, content, nil)
		},
		Want: func(ctx context.Context, c client.Client) error {
			var ns corev1.Namespace
			if err := c.Get(ctx, request.NamespacedName, &ns); err != nil {
				return err
			}
			if len(ns.Spec.Finalizers) != 0 || ns.Status.Phase != corev1.NamespaceTerminating || len(ns.Status.Conditions) != 5 {
				return fmt.Errorf("namespace %+v", ns)
			}
			return nil
		},
	})
}

func TestDeleteContent(t *testing.T) {
	tests := []struct {
		name        string
		objects     []runtime.Object
		discovery   error
		collections []string
		want        map[corev1.NamespaceConditionType]string
		estimate    time.Duration
		wantErr     bool
	}{
		{
			name: "everything goes", objects: []runtime.Object{object("Pod", "p"), object("ConfigMap", "c"), object("Service", "s")},
			collections: []string{"pods", "configmaps"}, want: map[corev1.NamespaceConditionType]string{},
		},
		{
			name: "pods hold back the rest", objects: []runtime.Object{object("Pod", "p", "x/y"), object("ConfigMap", "c")},
			collections: []string{"pods"}, estimate: 15 * time.Second,
			want: map[corev1.NamespaceConditionType]string{
				corev1.NamespaceContentRemaining:    "Some resources are remaining: pods. has 1 resource instances",
				corev1.NamespaceFinalizersRemaining: "Some content in the namespace has finalizers remaining: x/y in 1 resource instances",
			},
		},
		{
			name: "failed discovery", objects: []runtime.Object{object("ConfigMap", "c")}, discovery: errors.New("metrics.k8s.io is down"),
			collections: []string{"configmaps"}, wantErr: true,
			want: map[corev1.NamespaceConditionType]string{corev1.NamespaceDeletionDiscoveryFailure: "metrics.k8s.io is down"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			content, collections := contents(t, tt.objects...)
			r := reconciler(emptyReader{}, content, tt.discovery)
			o := r.deleteContent(t.Context(), terminating())
			if diff := cmp.Diff(tt.collections, *collections); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if o.estimate != tt.estimate || (o.err() != nil) != tt.wantErr {
				t.Errorf("estimate %v, error %v", o.estimate, o.err())
			}
			got := map[corev1.NamespaceConditionType]string{}
			for _, c := range conditions(nil, o, deleted) {
				if c.Status == corev1.ConditionTrue {
					got[c.Type] = c.Message
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// The condition has the API server's words and no others.
func TestDeleteContent_Fails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		verb   string
		answer error
		want   string
	}{
		{"refused", "delete-collection", errors.New("admission webhook \"w\" denied the request"), `admission webhook "w" denied the request`},
		{"cannot be listed", "list", errors.New("conversion webhook failed"), "conversion webhook failed"},
		{"not done", "delete-collection", nil, "unexpected items still remain in namespace: ns for gvr: /v1, Resource=pods"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			content, _ := contents(t, object("Pod", "p"))
			content.(*metadatafake.FakeMetadataClient).PrependReactor(tt.verb, "pods", func(clientgotesting.Action) (bool, runtime.Object, error) {
				return true, nil, tt.answer
			})
			o := reconciler(emptyReader{}, content, nil).deleteContent(t.Context(), terminating())
			want := "Failed to delete all resource types, 1 remaining: " + tt.want
			if got := contentFailure(o).Message; got != want {
				t.Errorf("condition says %q, want %q", got, want)
			}
		})
	}
}

// emptyReader has no pods.
type emptyReader struct{ client.Client }

func (emptyReader) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// A namespace does not wait much longer than the API that it waits for.
func TestRetries(t *testing.T) {
	limiter := retries()
	for range 40 {
		if delay := limiter.When(request); delay > time.Minute {
			t.Fatalf("the next try is after %v", delay)
		}
	}
}

func TestConditions_TransitionTime(t *testing.T) {
	first := conditions(nil, outcome{remaining: map[string]int{"pods.": 2}}, deleted)
	second := conditions(first, outcome{remaining: map[string]int{"pods.": 1}}, deleted.Add(time.Minute))
	third := conditions(second, outcome{}, deleted.Add(2*time.Minute))
	at := func(list []corev1.NamespaceCondition) time.Time {
		i := slices.IndexFunc(list, func(c corev1.NamespaceCondition) bool { return c.Type == corev1.NamespaceContentRemaining })
		return list[i].LastTransitionTime.Time
	}
	if !at(second).Equal(deleted) || !at(third).Equal(deleted.Add(2*time.Minute)) {
		t.Errorf("transition times %v, %v", at(second), at(third))
	}
}

func TestLongestGrace(t *testing.T) {
	pod := func(grace int64, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}, Status: corev1.PodStatus{Phase: phase}}
	}
	list := []corev1.Pod{pod(30, corev1.PodRunning), pod(10, corev1.PodRunning), pod(60, corev1.PodSucceeded)}
	if got := longestGrace(list, 10*time.Second); got != 30*time.Second {
		t.Errorf("grace %v", got)
	}
	if got := longestGrace(list, 31*time.Second); got != 0 {
		t.Errorf("grace %v after it has passed", got)
	}
}

func TestDeletable(t *testing.T) {
	found := deletable([]*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Namespaced: true, Verbs: []string{"delete", "deletecollection", "list"}},
			{Name: "pods/log", Namespaced: true, Verbs: []string{"delete"}},
			{Name: "nodes", Verbs: []string{"delete"}},
			{Name: "bindings", Namespaced: true, Verbs: []string{"create"}},
			{Name: "odd", Namespaced: true, Verbs: []string{"delete"}},
		}},
		{GroupVersion: "a/b/c"},
	})
	if found.Unparsed == nil || len(found.Deletable) != 2 || found.Deletable[0].Resource != "odd" || !found.Deletable[1].Collection || !found.Deletable[1].List {
		t.Errorf("found %+v", found)
	}
}

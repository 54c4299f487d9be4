// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func configMap(name, uid, version string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetNamespace("default")
	o.SetName(name)
	o.SetUID(types.UID(uid))
	o.SetResourceVersion(version)
	return o
}

func TestChanges(t *testing.T) {
	t.Parallel()
	one, two := func(v string) *unstructured.Unstructured { return configMap("a", "1", v) }, func(v string) *unstructured.Unstructured { return configMap("a", "2", v) }
	for _, test := range []struct {
		name string
		in   []Change
		want string
	}{
		{"changed twice", []Change{{v1alpha1.ObjectModified, one("1")}, {v1alpha1.ObjectModified, one("2")}}, "Modified 1/2"},
		{"made and changed", []Change{{v1alpha1.ObjectAdded, one("1")}, {v1alpha1.ObjectModified, one("2")}}, "Added 1/2"},
		{"changed and deleted", []Change{{v1alpha1.ObjectModified, one("1")}, {v1alpha1.ObjectDeleted, one("2")}}, "Modified 1/1, Deleted 1/2"},
		{"deleted and made again", []Change{{v1alpha1.ObjectDeleted, one("1")}, {v1alpha1.ObjectAdded, two("2")}, {v1alpha1.ObjectModified, two("3")}}, "Deleted 1/1, Added 2/3"},
		{"another of the name, without its being made", []Change{{v1alpha1.ObjectModified, one("1")}, {v1alpha1.ObjectModified, two("2")}}, "Modified 1/1, Modified 2/2"},
		{"matches again", []Change{{v1alpha1.ObjectDeleted, one("1")}, {v1alpha1.ObjectModified, one("2")}}, "Deleted 1/1, Modified 1/2"},
	} {
		var all changes
		for _, c := range test.in {
			all = all.with(c, position{})
		}
		var got []string
		for _, p := range all {
			c := p.change
			got = append(got, fmt.Sprintf("%s %s/%s", c.Type, c.Object.GetUID(), c.Object.GetResourceVersion()))
		}
		if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestChange_Event(t *testing.T) {
	t.Parallel()
	o := configMap("a", "1", "7")
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	header, data, err := Change{v1alpha1.ObjectDeleted, o}.Event()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"ce-id": "1-7-deleted", "ce-type": "io.minik8s.object.deleted", "ce-source": "/v1/ConfigMap", "ce-subject": "default/a",
		"ce-specversion": "1.0", "Content-Type": "application/json",
	} {
		if got := header.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	const want = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","resourceVersion":"7","uid":"1"}}`
	if string(data) != want {
		t.Errorf("the data is %s", data)
	}
	if len(o.GetManagedFields()) == 0 {
		t.Error("the object itself was changed")
	}
}

// watched runs a trigger on an API that has one ConfigMap, old.
type watched struct {
	*Objects
	api  *dynamicfake.FakeDynamicClient
	told chan string
	fail func(Change) error
	lost []error
}

func (w *watched) client() dynamic.ResourceInterface {
	return w.api.Resource(configMaps).Namespace("default")
}

func watchConfigMaps(t *testing.T, spec v1alpha1.ObjectTrigger) *watched {
	t.Helper()
	w := &watched{told: make(chan string, 2*MaxWaiting), fail: func(Change) error { return nil }}
	w.api = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{configMaps: "ConfigMapList"},
		configMap("old", "0", "1"))
	w.Objects = &Objects{
		Trigger: spec, Client: w.client(),
		Tell: func(_ context.Context, c Change) error {
			if err := w.fail(c); err != nil {
				return err
			}
			w.told <- fmt.Sprintf("%s %s %s", c.Type, c.Object.GetName(), c.Object.GetResourceVersion())
			return nil
		},
		Dropped: func(err error) { w.lost = append(w.lost, err) },
		News:    func() {},
	}
	return w
}

func (w *watched) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		w.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (w *watched) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, text := range want {
		select {
		case got := <-w.told:
			if got != text {
				t.Fatalf("told is %q, want %q", got, text)
			}
		case <-time.After(time.Hour): // of the test's own time
			t.Fatalf("%q was not told", text)
		}
	}
	synctest.Wait()
	if len(w.told) > 0 {
		t.Fatalf("also told is %q", <-w.told)
	}
}

// later waits, in the test's own time, and then for all that happens by then.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *watched) do(t *testing.T, change v1alpha1.ObjectChange, o *unstructured.Unstructured) {
	t.Helper()
	var err error
	switch change {
	case v1alpha1.ObjectAdded:
		_, err = w.client().Create(t.Context(), o, metav1.CreateOptions{})
	case v1alpha1.ObjectModified:
		_, err = w.client().Update(t.Context(), o, metav1.UpdateOptions{})
	case v1alpha1.ObjectDeleted:
		err = w.client().Delete(t.Context(), o.GetName(), metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		if !errors.Is(w.Problem(), ErrStarting) {
			t.Errorf("the problem before it begins is %v", w.Problem())
		}
		w.start(t)
		synctest.Wait()
		w.do(t, v1alpha1.ObjectAdded, configMap("a", "1", "2"))
		w.do(t, v1alpha1.ObjectModified, configMap("a", "1", "3"))
		w.do(t, v1alpha1.ObjectModified, configMap("old", "0", "4"))
		w.do(t, v1alpha1.ObjectDeleted, configMap("a", "1", "3"))
		w.expect(t, "Added a 2", "Modified a 3", "Modified old 4", "Deleted a 3")
	})
}

func TestObjects_SomeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{Changes: []v1alpha1.ObjectChange{v1alpha1.ObjectDeleted}})
		w.start(t)
		synctest.Wait()
		w.do(t, v1alpha1.ObjectAdded, configMap("a", "1", "2"))
		w.do(t, v1alpha1.ObjectModified, configMap("a", "1", "3"))
		w.do(t, v1alpha1.ObjectDeleted, configMap("a", "1", "3"))
		w.expect(t, "Deleted a 3")
	})
}

func TestObjects_Selector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}})
		w.start(t)
		synctest.Wait()
		for _, action := range w.api.Actions() {
			if l, ok := action.(clienttesting.ListAction); ok && l.GetListRestrictions().Labels.String() != "app=shop" {
				t.Errorf("listed is %s", l.GetListRestrictions().Labels)
			}
		}
		if w.Problem() != nil {
			t.Errorf("the problem is %v", w.Problem())
		}
		bad := watchConfigMaps(t, v1alpha1.ObjectTrigger{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "*"}}})
		bad.start(t)
		synctest.Wait()
		if bad.Problem() == nil || !strings.Contains(bad.Problem().Error(), "selector") {
			t.Errorf("the problem of a bad selector is %v", bad.Problem())
		}
	})
}

// TestObjects_Function has a function that fails: a change is told again, later and later, before those after it; not for ever, and not at
// all if that is in vain.
func TestObjects_Function(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		calls := 0
		w.fail = func(c Change) error {
			calls++
			switch {
			case c.Object.GetName() == "refused":
				return fmt.Errorf("calling: %w", Refused(errors.New("413")))
			case c.Object.GetName() == "broken" || calls < 3:
				return errors.New("500")
			}
			return nil
		}
		w.start(t)
		synctest.Wait()
		begin := time.Now()
		w.do(t, v1alpha1.ObjectAdded, configMap("a", "1", "2"))
		w.do(t, v1alpha1.ObjectDeleted, configMap("a", "1", "2"))
		w.expect(t, "Added a 2", "Deleted a 2")
		if took := time.Since(begin); calls != 4 || took < time.Second {
			t.Errorf("%d calls in %s, want 4 with pauses", calls, took)
		}
		calls = 100
		w.do(t, v1alpha1.ObjectAdded, configMap("refused", "2", "3"))
		if calls != 101 || len(w.lost) != 1 {
			t.Errorf("%d calls of what is refused and %v, want one and a loss", calls-100, w.lost)
		}
		calls = 100
		w.do(t, v1alpha1.ObjectAdded, configMap("broken", "3", "4"))
		later(time.Hour)
		if calls != 100+tries || len(w.lost) != 2 {
			t.Errorf("%d calls of what fails and %v, want %d and a loss", calls-100, w.lost, tries)
		}
	})
}

// TestObjects_Restless has an object that changes all the time while the function fails: it is not asked sooner for that.
func TestObjects_Restless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		var calls atomic.Int32
		w.fail = func(Change) error {
			calls.Add(1)
			return errors.New("500")
		}
		w.start(t)
		synctest.Wait()
		for i := range 100 {
			w.add(v1alpha1.ObjectModified, configMap("old", "0", fmt.Sprint(i)))
			later(10 * time.Millisecond)
		}
		if n := calls.Load(); n > 2 {
			t.Errorf("%d calls in a second", n)
		}
	})
}

// TestObjects_Busy has a function that does not return: what comes meanwhile waits, and is dropped beyond the bound.
func TestObjects_Busy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		gate := make(chan struct{})
		w.fail = func(Change) error {
			<-gate
			return nil
		}
		w.start(t)
		synctest.Wait()
		const beyond = 7
		for i := range MaxWaiting + tellers + beyond {
			w.add(v1alpha1.ObjectAdded, configMap(fmt.Sprint("c", i), fmt.Sprint(i), "2"))
			synctest.Wait()
		}
		last := fmt.Sprint("c", MaxWaiting+tellers-1) // which waits: what it is by now takes no more room
		w.add(v1alpha1.ObjectModified, configMap(last, fmt.Sprint(MaxWaiting+tellers-1), "3"))
		if len(w.lost) != beyond {
			t.Errorf("%d changes are dropped, want %d", len(w.lost), beyond)
		}
		close(gate)
		synctest.Wait()
		if len(w.told) != MaxWaiting+tellers || w.waiting != 0 || len(w.pending) != 0 {
			t.Errorf("%d are told, %d wait, %d are kept", len(w.told), w.waiting, len(w.pending))
		}
	})
}

// TestObjects_API has an API that refuses at first, and a watch that breaks while objects change.
func TestObjects_API(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		var refuse atomic.Bool
		refuse.Store(true)
		w.api.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			if refuse.Load() {
				return true, nil, errors.New("forbidden")
			}
			return false, nil, nil
		})
		var news atomic.Int32
		w.News = func() { news.Add(1) }
		w.start(t)
		later(time.Minute)
		if w.Problem() == nil || errors.Is(w.Problem(), ErrStarting) || news.Load() != 1 {
			t.Fatalf("the problem is %v, said %d times", w.Problem(), news.Load())
		}
		refuse.Store(false)
		later(time.Minute)
		if w.Problem() != nil || news.Load() != 3 { // the list, and that it is complete
			t.Fatalf("the problem is %v, said %d times", w.Problem(), news.Load())
		}
	})
}

// TestMirror has a list that comes after a break.
func TestMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		w.start(t)
		synctest.Wait()
		m := w.mirror(configMap("same", "1", "2"), configMap("other", "2", "3"), configMap("changed", "3", "4"), configMap("gone", "4", "5"))
		w.replace(t, m, configMap("same", "1", "2"), configMap("other", "5", "6"), configMap("changed", "3", "7"), configMap("new", "6", "8"))
		w.expectSet(t, "Added new 8", "Added other 6", "Deleted gone 5", "Deleted other 3", "Modified changed 7")
	})
}

// mirror is another one of the trigger, in which there are objects.
func (w *watched) mirror(objects ...*unstructured.Unstructured) *mirror {
	m := &mirror{trigger: w.Objects, objects: map[string]*unstructured.Unstructured{}, listed: true}
	for _, o := range objects {
		m.objects[keyOf(o)] = o
	}
	return m
}

func (w *watched) replace(t *testing.T, m *mirror, objects ...*unstructured.Unstructured) {
	t.Helper()
	list := make([]any, len(objects))
	for i, o := range objects {
		list[i] = o
	}
	if err := m.Replace(list, "10"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// expectSet is expect of changes of several objects, which have no order among them.
func (w *watched) expectSet(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for len(w.told) > 0 {
		got = append(got, <-w.told)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestObjects_Told takes down how far a trigger has got while a function is slow.
func TestObjects_Told(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{Changes: []v1alpha1.ObjectChange{v1alpha1.ObjectAdded, v1alpha1.ObjectModified}})
		gate := make(chan error)
		w.fail = func(c Change) error {
			if c.Object.GetName() == "slow" {
				return <-gate
			}
			return nil
		}
		w.start(t)
		synctest.Wait()
		m := w.mirror()
		expect := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := w.Told(); got != want {
				t.Errorf("%s: told is %q, want %q", what, got, want)
			}
		}
		w.replace(t, m)
		expect("nothing has changed", "10")
		see := func(do func(any) error, o *unstructured.Unstructured) {
			t.Helper()
			if err := do(o); err != nil {
				t.Fatal(err)
			}
		}
		see(m.Add, configMap("slow", "1", "11"))
		expect("the first is being told", "10")
		see(m.Add, configMap("quick", "2", "12"))
		expect("the first is still being told", "10")
		see(m.Update, configMap("slow", "1", "13"))
		see(m.Update, configMap("slow", "1", "14"))
		see(m.Delete, configMap("quick", "2", "15"))
		gate <- errors.New("500")
		expect("the first is told again later", "10")
		later(time.Minute)
		gate <- nil
		expect("the changes after it, which are one, are being told", "12")
		gate <- Refused(errors.New("400"))
		expect("all are told or given up, and one is not wanted", "15")
		for _, version := range []string{"16", "17"} {
			if err := m.Bookmark(version); err != nil {
				t.Fatal(err)
			}
		}
		expect("little time has passed", "15")
		later(restful)
		if err := m.Bookmark("18"); err != nil {
			t.Fatal(err)
		}
		expect("nothing has changed for long", "18")
		var news atomic.Int32
		w.News = func() { news.Add(1) }
		for i := range 10 { // never at rest, and never wanted
			later(time.Minute)
			see(m.Delete, configMap("quick", "2", fmt.Sprint(20+i)))
		}
		expect("much has changed that is not wanted", "29")
		if n := news.Load(); n != 3 {
			t.Errorf("it was said %d times in ten minutes, want 3", n)
		}
	})
}

// past is an API that knows how objects were at version 5, or did.
type past struct {
	dynamic.ResourceInterface
	objects []unstructured.Unstructured
	err     error
}

func (p past) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if options.ResourceVersionMatch != metav1.ResourceVersionMatchExact {
		return p.ResourceInterface.List(ctx, options)
	}
	if options.ResourceVersion != "5" {
		return nil, fmt.Errorf("version %q was asked for", options.ResourceVersion)
	}
	list := &unstructured.UnstructuredList{Items: p.objects}
	list.SetResourceVersion("5")
	return list, p.err
}

func (p past) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.ResourceVersion == "5" {
		return nil, apierrors.NewResourceExpired("too old")
	}
	return p.ResourceInterface.Watch(ctx, options)
}

// TestObjects_Since goes on from where another process has ended, while objects have changed.
func TestObjects_Since(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		w.Since = "5"
		w.Client = past{w.client(), []unstructured.Unstructured{*configMap("old", "0", "1"), *configMap("changed", "1", "2"), *configMap("gone", "2", "3")}, nil}
		w.do(t, v1alpha1.ObjectAdded, configMap("changed", "1", "6"))
		w.do(t, v1alpha1.ObjectAdded, configMap("new", "3", "7"))
		if w.Told() != "5" {
			t.Errorf("before it begins, told is %q", w.Told())
		}
		w.start(t)
		later(time.Minute)
		w.expectSet(t, "Added new 7", "Deleted gone 3", "Modified changed 6")
		if w.Problem() != nil || len(w.lost) > 0 {
			t.Errorf("the problem is %v, lost is %v", w.Problem(), w.lost)
		}
	})
}

// TestObjects_Forgotten has an API that does not know any more what was there, and one that does not answer at first.
func TestObjects_Forgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tooLarge := apierrors.NewTimeoutError("it will be some day", 1)
		tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		for _, err := range []error{apierrors.NewResourceExpired("compacted"), apierrors.NewBadRequest("no version"), tooLarge} {
			w := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
			w.Since = "5"
			w.Client = past{w.client(), nil, err}
			w.start(t)
			later(time.Minute)
			w.expectSet(t)
			if w.Problem() != nil || len(w.lost) != 1 || !strings.Contains(w.lost[0].Error(), "not known any more") {
				t.Errorf("%v: the problem is %v, lost is %v, want what is unknown", err, w.Problem(), w.lost)
			}
		}
		busy := watchConfigMaps(t, v1alpha1.ObjectTrigger{})
		busy.Since = "5"
		busy.Client = past{busy.client(), nil, apierrors.NewServiceUnavailable("busy")}
		busy.start(t)
		later(time.Minute)
		if busy.Problem() == nil || len(busy.lost) > 0 || busy.Told() != "5" {
			t.Errorf("the problem is %v, lost is %v, told is %q", busy.Problem(), busy.lost, busy.Told())
		}
	})
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

// restful is how far apart it is said how far a trigger has got that has nothing to tell: often enough for the API server to know the
// version still (it forgets after five minutes at the soonest), and seldom, for each is a write.
const restful = 3 * time.Minute

// mirror is what has been seen of a trigger's objects: the store of a reflector, which calls one method at a time.
type mirror struct {
	trigger *Objects
	objects map[string]*unstructured.Unstructured
	listed  bool      // what came first is no change
	said    time.Time // when it was last said how far it has got
}

var _ cache.ReflectorBookmarkStore = (*mirror)(nil)

// Add implements cache.ReflectorStore.
func (m *mirror) Add(obj any) error { return m.see(obj) }

// Update implements cache.ReflectorStore.
func (m *mirror) Update(obj any) error { return m.see(obj) }

// Resync implements cache.ReflectorStore; nobody asks for it.
func (m *mirror) Resync() error { return nil }

// Delete implements cache.ReflectorStore.
func (m *mirror) Delete(obj any) error {
	o, err := objectOf(obj)
	if err != nil {
		return err
	}
	delete(m.objects, keyOf(o))
	m.trigger.add(v1alpha1.ObjectDeleted, o)
	m.move(o.GetResourceVersion())
	return nil
}

// Replace implements cache.ReflectorStore. A list that is not the first comes after a break: of what has happened meanwhile the outcome is seen.
func (m *mirror) Replace(list []any, version string) error {
	fresh := make(map[string]*unstructured.Unstructured, len(list))
	for _, obj := range list {
		o, err := objectOf(obj)
		if err != nil {
			return err
		}
		fresh[keyOf(o)] = o
	}
	first := !m.listed
	if !first {
		for _, key := range slices.Sorted(maps.Keys(m.objects)) {
			if fresh[key] == nil {
				m.trigger.add(v1alpha1.ObjectDeleted, m.objects[key])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(fresh)) {
			m.compare(m.objects[key], fresh[key])
		}
	}
	m.objects, m.listed = fresh, true
	m.move(version)
	if first {
		m.trigger.begin()
	}
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore: up to a version nothing else has changed.
func (m *mirror) Bookmark(version string) error {
	if time.Since(m.said) >= restful {
		m.move(version)
	}
	return nil
}

func (m *mirror) see(obj any) error {
	o, err := objectOf(obj)
	if err != nil {
		return err
	}
	key := keyOf(o)
	m.compare(m.objects[key], o)
	m.objects[key] = o
	m.move(o.GetResourceVersion())
	return nil
}

func (m *mirror) compare(before, after *unstructured.Unstructured) {
	switch {
	case before == nil:
		m.trigger.add(v1alpha1.ObjectAdded, after)
	case before.GetUID() != after.GetUID(): // both happened during a break
		m.trigger.add(v1alpha1.ObjectDeleted, before)
		m.trigger.add(v1alpha1.ObjectAdded, after)
	case before.GetResourceVersion() != after.GetResourceVersion():
		m.trigger.add(v1alpha1.ObjectModified, after)
	}
}

// move says that everything up to a version has been seen. What has changed waits to be told by now, but for what the trigger does not
// want: there may be so much of that that nothing else comes.
func (m *mirror) move(version string) {
	m.trigger.saw(version)
	if time.Since(m.said) >= restful {
		m.said = time.Now()
		m.trigger.News()
	}
}

func objectOf(obj any) (*unstructured.Unstructured, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is no object", obj)
	}
	return o, nil
}

func keyOf(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// lists lists what it is asked for instead of having it streamed as the beginning of a watch, which has no beginning in the past.
type lists struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by the reflector.
func (lists) IsWatchListSemanticsUnSupported() bool { return true }

func (o *Objects) listWatch(selector string) cache.ListerWatcher {
	return lists{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			list, err := o.list(ctx, options)
			o.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			w, err := o.Client.Watch(ctx, options)
			o.note(ctx, err)
			return w, err
		},
	}}
}

// list lists the objects, at first as they were when the trigger had been told so far: what has changed since is what comes next.
func (o *Objects) list(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if o.Since == "" || o.hasBegun() {
		return o.Client.List(ctx, options)
	}
	list, err := o.Client.List(ctx, metav1.ListOptions{
		LabelSelector: options.LabelSelector, ResourceVersion: o.Since, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if !unknownVersion(err) {
		return list, err
	}
	why := err
	if list, err = o.Client.List(ctx, options); err == nil {
		o.Dropped(fmt.Errorf("what has changed since version %s, when the trigger was served last, is not known any more: %w", o.Since, why))
	}
	return list, err
}

// unknownVersion tells whether a version is one that the API server has forgotten, or never had, or that is none: anybody who may write
// the status may have written it.
func unknownVersion(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

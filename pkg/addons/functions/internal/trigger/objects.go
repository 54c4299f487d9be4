// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

// Bounds of what a trigger tells.
const (
	// MaxWaiting is how many changes wait to be told at most; those beyond are dropped.
	MaxWaiting = 1000
	// tries is how often a change is told that the function fails at.
	tries = 5
	// tellers is how many objects' changes are told at the same time; those of one object are told one after another.
	tellers = 4
)

// Objects is what an object trigger watches.
type Objects struct {
	// Trigger says which changes are told.
	Trigger v1alpha1.ObjectTrigger
	// Client lists and watches the kind as the account that the trigger names, in the function's namespace if the kind has namespaces.
	Client dynamic.ResourceInterface
	// Tell calls the function with a change. An error is one to try again after, unless it is Refused.
	Tell func(context.Context, Change) error
	// Dropped is called when a change is given up.
	Dropped func(error)
	// News is called when Problem returns something else. It does not block.
	News func()

	queue workqueue.TypedRateLimitingInterface[string] // of keys of objects

	mu      sync.Mutex
	pending map[string]changes
	paused  map[string]bool // objects whose oldest change is told again later
	waiting int             // changes of all objects
	begun   bool
	problem error
}

// ErrStarting is the problem before it is known which objects there are: only what changes after that is told.
var ErrStarting = errors.New("the objects are not known yet")

// refusedError is one that does not go away by trying again.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// Refused says that to try again is in vain.
func Refused(err error) error { return refusedError{err} }

// Run tells changes until ctx ends; what there is at first is no change. Breaks of the watch are bridged by a new list: of what has
// happened meanwhile the outcome is told.
func (o *Objects) Run(ctx context.Context) {
	selector := "" // which, unlike LabelSelectorAsSelector's of nil, is all
	if o.Trigger.Selector != nil {
		s, err := metav1.LabelSelectorAsSelector(o.Trigger.Selector)
		if err != nil {
			o.note(ctx, fmt.Errorf("selector: %w", err))
			return
		}
		selector = s.String()
	}
	o.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
	o.pending, o.paused = map[string]changes{}, map[string]bool{}
	informer := cache.NewSharedInformer(o.listWatch(selector), &unstructured.Unstructured{}, 0)
	quiet := func(context.Context, *cache.Reflector, error) {} // listWatch has noted it
	handler := cache.ResourceEventHandlerDetailedFuncs{AddFunc: o.added, UpdateFunc: o.updated, DeleteFunc: o.deleted}
	_, err := informer.AddEventHandler(handler)
	if err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(quiet)); err != nil {
		o.note(ctx, err)
		return
	}
	var all sync.WaitGroup
	for range tellers {
		all.Go(func() { o.tellAll(ctx) })
	}
	all.Go(func() {
		select {
		case <-informer.HasSyncedChecker().Done():
			o.begin()
		case <-ctx.Done():
		}
	})
	informer.RunWithContext(ctx)
	o.queue.ShutDown()
	all.Wait()
}

// Problem is why changes are not told; nil if they are.
func (o *Objects) Problem() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.problem == nil && !o.begun {
		return ErrStarting
	}
	return o.problem
}

func (o *Objects) begin() {
	o.mu.Lock()
	o.begun = true
	o.mu.Unlock()
	o.News()
}

func (o *Objects) listWatch(selector string) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			list, err := o.Client.List(ctx, options)
			o.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			w, err := o.Client.Watch(ctx, options)
			o.note(ctx, err)
			return w, err
		},
	}, o.Client)
}

// note keeps whether objects can be watched.
func (o *Objects) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	news := (err == nil) != (o.problem == nil) || err != nil && err.Error() != o.problem.Error()
	o.problem = err
	o.mu.Unlock()
	if news {
		o.News()
	}
}

func (o *Objects) added(obj any, initial bool) {
	if !initial {
		o.add(v1alpha1.ObjectAdded, obj)
	}
}

func (o *Objects) updated(before, after any) {
	b, a := before.(*unstructured.Unstructured), after.(*unstructured.Unstructured)
	switch {
	case a.GetUID() != b.GetUID(): // both happened while the watch was broken
		o.add(v1alpha1.ObjectDeleted, b)
		o.add(v1alpha1.ObjectAdded, a)
	case a.GetResourceVersion() != b.GetResourceVersion():
		o.add(v1alpha1.ObjectModified, a)
	}
}

func (o *Objects) deleted(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	o.add(v1alpha1.ObjectDeleted, obj)
}

func (o *Objects) add(change v1alpha1.ObjectChange, obj any) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok || !wanted(&o.Trigger, change) {
		return
	}
	key := object.GetNamespace() + "/" + object.GetName()
	o.mu.Lock()
	all := o.pending[key].with(Change{Type: change, Object: object})
	more, paused := len(all)-len(o.pending[key]), o.paused[key]
	full := o.waiting+more > MaxWaiting
	if !full {
		o.pending[key] = all
		o.waiting += more
	}
	o.mu.Unlock()
	if full {
		o.Dropped(fmt.Errorf("%d changes wait to be told, and those beyond are dropped, such as of %s %s", MaxWaiting, object.GetKind(), key))
		return
	}
	if !paused { // it comes by itself, not sooner for there being more to tell
		o.queue.Add(key)
	}
}

func (o *Objects) tellAll(ctx context.Context) {
	for {
		key, shutdown := o.queue.Get()
		if shutdown {
			return
		}
		o.tellNext(ctx, key)
		o.queue.Done(key)
	}
}

// tellNext tells the oldest change of an object; while it is told, those that come are kept apart from it.
func (o *Objects) tellNext(ctx context.Context, key string) {
	c, found := o.take(key)
	if !found || ctx.Err() != nil {
		return
	}
	err := o.Tell(ctx, c)
	if ctx.Err() != nil {
		return
	}
	if err != nil && !errors.As(err, new(refusedError)) && o.queue.NumRequeues(key) < tries-1 {
		o.putBack(key, c)
		o.queue.AddRateLimited(key)
		return
	}
	if err != nil {
		o.Dropped(fmt.Errorf("telling that %s %s is %s: %w", c.Object.GetKind(), key, c.Type, err))
	}
	o.queue.Forget(key)
	o.queue.Add(key) // there may be more
}

func (o *Objects) take(key string) (Change, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.paused, key)
	all := o.pending[key]
	if len(all) == 0 {
		delete(o.pending, key)
		return Change{}, false
	}
	o.pending[key] = all[1:]
	o.waiting--
	return all[0], true
}

// putBack has a change told before all others of its object, later.
func (o *Objects) putBack(key string, c Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[key] = append(changes{c}, o.pending[key]...)
	o.paused[key] = true
	o.waiting++
}

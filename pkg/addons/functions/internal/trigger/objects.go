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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

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
	// Since is what Told was of whoever served the trigger before; what has changed since is told. Without it, what there is at first is no
	// change.
	Since string
	// Tell calls the function with a change. An error is one to try again after, unless it is Refused.
	Tell func(context.Context, Change) error
	// Dropped is called when a change is given up.
	Dropped func(error)
	// News is called when Problem or Told returns something else. It does not block.
	News func()

	queue workqueue.TypedRateLimitingInterface[string] // of keys of objects

	mu      sync.Mutex
	pending map[string]changes
	paused  map[string]bool     // objects whose oldest change is told again later
	telling map[string]position // by object, where the change that is being told came
	waiting int                 // changes of all objects
	seen    position            // everything up to there waits, or was told
	begun   bool
	problem error
}

// position is a place in the order in which changes have come.
type position struct {
	number  uint64
	version string // of the objects
}

// ErrStarting is the problem before it is known which objects there are. Without Since only what changes after that is told.
var ErrStarting = errors.New("the objects are not known yet")

// refusedError is one that does not go away by trying again.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// Refused says that to try again is in vain.
func Refused(err error) error { return refusedError{err} }

// Run tells changes until ctx ends. Breaks of the watch are bridged by a new list: of what has happened meanwhile the outcome is told.
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
	o.mu.Lock()
	o.pending, o.paused, o.telling = map[string]changes{}, map[string]bool{}, map[string]position{}
	o.mu.Unlock()
	var all sync.WaitGroup
	for range tellers {
		all.Go(func() { o.tellAll(ctx) })
	}
	m := &mirror{trigger: o, objects: map[string]*unstructured.Unstructured{}, said: time.Now()}
	r := cache.NewReflectorWithOptions(o.listWatch(selector), &unstructured.Unstructured{}, m, cache.ReflectorOptions{Name: "objects of a trigger"})
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 30 * time.Second}
	quiet := klog.NewContext(ctx, klog.Logger{}) // what fails is the Problem
	_ = backoff.DelayWithReset(clock.RealClock{}, 2*time.Minute).Until(quiet, true, true, func(ctx context.Context) (bool, error) {
		_ = r.ListAndWatchWithContext(ctx)
		return false, nil
	})
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

// Told is the version of the objects up to which every change was told, or given up; Since before it is known what there is. Whoever begins
// with it as Since tells some changes again, and loses none.
func (o *Objects) Told() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun {
		return o.Since
	}
	oldest := o.seen
	for _, p := range o.telling {
		oldest = oldest.before(p)
	}
	for _, all := range o.pending {
		if len(all) > 0 {
			oldest = oldest.before(all[0].after)
		}
	}
	return oldest.version
}

func (p position) before(q position) position {
	if q.number < p.number {
		return q
	}
	return p
}

// saw says that changes up to a version have been added.
func (o *Objects) saw(version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if version != "" {
		o.seen = position{o.seen.number + 1, version}
	}
}

func (o *Objects) begin() {
	o.mu.Lock()
	o.begun = true
	o.mu.Unlock()
	o.News()
}

func (o *Objects) hasBegun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun
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

// add has a change told that has come after what was seen.
func (o *Objects) add(change v1alpha1.ObjectChange, object *unstructured.Unstructured) {
	if !wanted(&o.Trigger, change) {
		return
	}
	key := keyOf(object)
	o.mu.Lock()
	all := o.pending[key].with(Change{Type: change, Object: object}, o.seen)
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
	next, found := o.take(key)
	if !found || ctx.Err() != nil {
		return
	}
	c := next.change
	err := o.Tell(ctx, c)
	if ctx.Err() != nil {
		return
	}
	if err != nil && !errors.As(err, new(refusedError)) && o.queue.NumRequeues(key) < tries-1 {
		o.putBack(key, next)
		o.queue.AddRateLimited(key)
		return
	}
	if err != nil {
		o.Dropped(fmt.Errorf("telling that %s %s is %s: %w", c.Object.GetKind(), key, c.Type, err))
	}
	o.done(key)
	o.queue.Forget(key)
	o.queue.Add(key) // there may be more
}

func (o *Objects) take(key string) (pending, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.paused, key)
	all := o.pending[key]
	if len(all) == 0 {
		delete(o.pending, key)
		return pending{}, false
	}
	o.pending[key] = all[1:]
	o.telling[key] = all[0].after
	o.waiting--
	return all[0], true
}

// putBack has a change told before all others of its object, later.
func (o *Objects) putBack(key string, p pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[key] = append(changes{p}, o.pending[key]...)
	delete(o.telling, key)
	o.paused[key] = true
	o.waiting++
}

func (o *Objects) done(key string) {
	o.mu.Lock()
	delete(o.telling, key)
	o.mu.Unlock()
	o.News()
}

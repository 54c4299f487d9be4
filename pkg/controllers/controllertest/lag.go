// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// watches says how far the cache of a kind has got when a pass begins: the number of the pass, from 0 on, whose beginning it
// shows. It stays as it is until the next pass begins. It never goes back.
type watches func(pass int, kind schema.GroupVersionKind) int

// inStep is a cache that has everything when a pass begins, but nothing of what the pass itself writes.
func inStep(pass int, _ schema.GroupVersionKind) int { return pass }

// late is a cache that is so many passes behind.
func late(passes int) watches {
	return func(pass int, _ schema.GroupVersionKind) int { return max(0, pass-passes) }
}

// lateOnly is a cache in which one kind is behind all others.
func lateOnly(kind schema.GroupVersionKind, passes int) watches {
	return func(pass int, other schema.GroupVersionKind) int {
		if other == kind {
			return max(0, pass-passes)
		}
		return pass
	}
}

// broken is a cache whose watches break after every few passes and come back with a list: what happened in between was never
// seen.
func broken(passes int) watches {
	return func(pass int, _ schema.GroupVersionKind) int { return pass - pass%passes }
}

// lags checks that a reconciler gets to the same end with caches that lag, and makes nothing that it would not make otherwise.
func lags(ctx context.Context, c Case) error {
	wanted := newWorld(c, c.Objects)
	if err := wanted.settle(ctx, c, c.New(wanted.client)); err != nil {
		return err
	}
	all := map[string]watches{"passes that do not see their own writes": inStep, "a cache one pass behind": late(1), "a cache three passes behind": late(3)}
	for kind := range wanted.kinds {
		all["a cache of "+kind.Kind+" two passes behind"] = lateOnly(kind, 2)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := sameAs(ctx, c, wanted, all[name], fault{}, 0); err != nil {
			return fmt.Errorf("with %s: %w", name, err)
		}
	}
	return nil
}

// relists is lags with watches that break.
func relists(ctx context.Context, c Case) error {
	wanted := newWorld(c, c.Objects)
	if err := wanted.settle(ctx, c, c.New(wanted.client)); err != nil {
		return err
	}
	for _, passes := range []int{2, 3, 5} {
		if err := sameAs(ctx, c, wanted, broken(passes), fault{}, 0); err != nil {
			return fmt.Errorf("with watches that break after %d passes: %w", passes, err)
		}
	}
	return nil
}

// unanswered lets each write in turn have no answer, with a cache that lags and a process that lives on.
func unanswered(done bool) func(context.Context, Case) error {
	return func(ctx context.Context, c Case) error {
		wanted := newWorld(c, c.Objects)
		if err := wanted.settle(ctx, c, c.New(wanted.client)); err != nil {
			return err
		}
		for n := 1; n <= wanted.writes; n++ {
			if err := sameAs(ctx, c, wanted, late(1), fault{err: io.ErrUnexpectedEOF, after: done}, n); err != nil {
				return fmt.Errorf("without an answer to write %d: %w", n, err)
			}
		}
		return nil
	}
}

// sameAs checks that a reconciler behind a barrier, with such watches and a fault at one write, settles as the one did whose
// world is wanted.
func sameAs(ctx context.Context, c Case, wanted *world, how watches, f fault, at int) error {
	w := newWorld(c, c.Objects)
	w.fault, w.faultAt = f, at
	err := w.settleBehind(ctx, c, how)
	if err != nil {
		return fmt.Errorf("%w; writes: %v", err, w.log)
	}
	for kind, n := range w.created {
		// Fewer may do: a pod that comes late may find the work done.
		if mayRepeat := c.Repeats && f.after; n > wanted.created[kind] && !mayRepeat {
			return fmt.Errorf("it created %v, without that %v; writes: %v", w.created, wanted.created, w.log)
		}
	}
	return nil
}

// settleBehind is settle for a reconciler that reads from a cache with such watches, behind a barrier as in the manager.
func (w *world) settleBehind(ctx context.Context, c Case, how watches) error {
	cached := &cached{Client: w.client, world: w}
	begun := 0
	inner := c.New(ownwrites.NewClient(cached, noInformers{}))
	r := ownwrites.NewBarrier(cached, live{w.direct}).PerRequest(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		begun++
		return inner.Reconcile(ctx, req)
	}))
	limit := c.maxPasses() * 8
	var last error
	for pass := range limit {
		if err := cached.advance(ctx, pass, how); err != nil {
			return err
		}
		writes, passes := w.writes, begun
		var result reconcile.Result
		result, last = r.Reconcile(ctx, c.Request)
		if hit := writes < w.faultAt && w.faultAt <= w.writes; hit && last == nil && result.IsZero() {
			return errors.New("a write failed, but the pass neither returned an error nor asked for another one")
		}
		quiet := last == nil && begun > passes && w.writes == writes && cached.isCurrent()
		if c.World != nil {
			changed, err := w.others(ctx, c.World)
			if err != nil {
				return fmt.Errorf("playing the rest of the cluster: %w", err)
			}
			quiet = quiet && !changed
		}
		if quiet {
			return c.Want(ctx, w.direct)
		}
	}
	return fmt.Errorf("not at rest after %d passes, last error: %w", limit, last)
}

// cached is a client whose reads are of the past, and the stores that it reads from.
type cached struct {
	client.Client
	world *world
	// history has the state at the beginning of each pass.
	history []*state
	how     watches
}

// state is all objects at one moment.
type state struct {
	version int
	objects map[schema.GroupVersionKind]map[string]client.Object
}

// advance begins a pass.
func (c *cached) advance(ctx context.Context, pass int, how watches) error {
	c.how = how
	s := &state{objects: map[schema.GroupVersionKind]map[string]client.Object{}}
	if pass > 0 {
		s.objects = maps.Clone(c.history[pass-1].objects)
	}
	for kind, changed := range c.world.kinds {
		if !changed {
			continue
		}
		objects, err := c.world.all(ctx, kind)
		if err != nil {
			return err
		}
		s.objects[kind] = objects
		c.world.kinds[kind] = false // until the next write
	}
	s.version = c.world.version
	if pass > 0 && s.equals(c.history[pass-1]) {
		s = c.history[pass-1]
	}
	c.history = append(c.history, s)
	return nil
}

// all returns the objects of a kind by their names.
func (w *world) all(ctx context.Context, kind schema.GroupVersionKind) (map[string]client.Object, error) {
	made, err := clientgoscheme.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list := made.(client.ObjectList)
	if err := w.direct.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	objects := map[string]client.Object{}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		obj := item.(client.Object)
		objects[toolscache.MetaObjectToName(obj).String()] = obj
		w.see(obj) // a deletion that leaves it there makes a version which nobody was told
		return nil
	})
	return objects, err
}

func (s *state) equals(other *state) bool {
	return s.version == other.version && maps.EqualFunc(s.objects, other.objects, func(a, b map[string]client.Object) bool {
		return maps.EqualFunc(a, b, func(a, b client.Object) bool {
			return a.GetResourceVersion() == b.GetResourceVersion() && a.GetUID() == b.GetUID()
		})
	})
}

// shown is the state in which the cache has a kind.
func (c *cached) shown(kind schema.GroupVersionKind) *state {
	return c.history[c.how(len(c.history)-1, kind)]
}

// isCurrent tells whether the cache has all kinds as they were when the pass began.
func (c *cached) isCurrent() bool {
	now := c.history[len(c.history)-1]
	for kind := range c.world.kinds {
		if c.shown(kind) != now {
			return false
		}
	}
	return true
}

// Get implements client.Client.
func (c *cached) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	found, ok := c.shown(gvk).objects[gvk][toolscache.NewObjectName(key.Namespace, key.Name).String()]
	if !ok {
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		return apierrors.NewNotFound(resource.GroupResource(), key.Name)
	}
	if reflect.TypeOf(found) != reflect.TypeOf(obj) {
		return fmt.Errorf("controllertest: a cache of %T has no %T", found, obj)
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

// List implements client.Client.
func (c *cached) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	options := (&client.ListOptions{}).ApplyOptions(opts)
	indexed, err := byIndex(gvk, options.FieldSelector)
	if err != nil {
		return err
	}
	objects := c.shown(gvk).objects[gvk]
	var found []runtime.Object
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		obj := objects[key]
		switch {
		case options.Namespace != "" && obj.GetNamespace() != options.Namespace:
		case options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(obj.GetLabels())):
		case !indexed(obj):
		default:
			found = append(found, obj.DeepCopyObject())
		}
	}
	return meta.SetList(list, found)
}

// byIndex returns what tells whether an index that the manager's cache has finds an object by a selector.
func byIndex(kind schema.GroupVersionKind, selector fields.Selector) (func(client.Object) bool, error) {
	if selector == nil {
		return func(client.Object) bool { return true }, nil
	}
	for _, i := range index.All() {
		of, err := apiutil.GVKForObject(i.Object, clientgoscheme.Scheme)
		if err != nil {
			return nil, err
		}
		if value, exact := selector.RequiresExactMatch(i.Field); exact && of == kind {
			return func(obj client.Object) bool { return slices.Contains(i.Values(obj), value) }, nil
		}
	}
	return nil, fmt.Errorf("controllertest: %s has no index for %q", kind.Kind, selector)
}

// Of implements ownwrites.Stores.
func (c *cached) Of(kind schema.GroupVersionKind) [][]ownwrites.Store {
	return [][]ownwrites.Store{{store{c.shown(kind), kind}}}
}

// store is what a state has of a kind.
type store struct {
	*state
	kind schema.GroupVersionKind
}

// GetByKey implements ownwrites.Store.
func (s store) GetByKey(key string) (any, bool, error) {
	obj, ok := s.objects[s.kind][key]
	return obj, ok, nil
}

// LastStoreSyncResourceVersion implements ownwrites.Store.
func (s store) LastStoreSyncResourceVersion() string { return strconv.Itoa(s.version) }

// noInformers has none that can be looked into.
type noInformers struct{ cache.Informers }

func (noInformers) GetInformerForKind(context.Context, schema.GroupVersionKind, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, nil
}

// live is the API server as a barrier asks it. The fake client knows no field selectors without an index.
type live struct{ client.Client }

func (l live) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.FieldSelector == nil {
		return l.Client.List(ctx, list, opts...)
	}
	name, _ := options.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
	found := &metav1.PartialObjectMetadata{}
	gvk := list.GetObjectKind().GroupVersionKind()
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	found.SetGroupVersionKind(gvk)
	err := l.Get(ctx, client.ObjectKey{Namespace: options.Namespace, Name: name}, found)
	if err == nil {
		list.(*metav1.PartialObjectMetadataList).Items = []metav1.PartialObjectMetadata{*found}
	}
	return client.IgnoreNotFound(err)
}

// Live returns what reads past the cache of c, a client that Case.New was given.
func Live(c client.Client) client.Reader {
	if own, ok := c.(*ownwrites.Client); ok {
		if behind, ok := own.Client.(*cached); ok {
			return behind.world.direct
		}
	}
	return c
}

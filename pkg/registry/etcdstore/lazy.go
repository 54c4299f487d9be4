// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

const (
	// manyLists is how many lists make a watch cache worthwhile without a watch.
	manyLists = 100
	// patience is how long a watch waits for a cache that has just begun. Then it is told to come again.
	patience = 10 * time.Second
)

// lazy is the storage of a resource whose watch cache begins when somebody watches, or lists often: most kinds of custom
// resources that operators bring are never used, and a cache takes a dozen goroutines and a watch of etcd. Until then, and
// for what a cache cannot know, etcd answers.
type lazy struct {
	storage.Interface // etcd
	build             func() (*cacher.Cacher, *cacher.CacheDelegator, error)
	lists             atomic.Int32
	ready             atomic.Pointer[caching] // nil until the cache is filled
	done              chan struct{}           // closed when the storage is

	mu    sync.Mutex // guards begun, and done from being closed twice
	begun *caching
}

// caching is a watch cache in front of etcd.
type caching struct {
	*cacher.CacheDelegator
	cacher *cacher.Cacher
	filled chan struct{}
	// from is a version since when the cache knows all that happened. It is set before filled is closed.
	from uint64
}

// lazily is a generic.StorageDecorator: etcd, behind a watch cache as soon as there is use for one.
func (f *Factory) lazily(c *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	raw, stopRaw, err := f.Raw(c, resourcePrefix, newFunc, newListFunc)
	if err != nil {
		return nil, nil, err
	}
	l := &lazy{Interface: raw, done: make(chan struct{}), build: func() (*cacher.Cacher, *cacher.CacheDelegator, error) {
		return f.newCache(raw, c, resourcePrefix, keyFunc, newFunc, newListFunc, attrs, triggers, indexers)
	}}
	return l, func() {
		l.stop()
		stopRaw()
	}, nil
}

// begin starts the cache, if it has not begun.
func (l *lazy) begin() (*caching, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun != nil {
		return l.begun, nil
	}
	if l.stopped() {
		return nil, storage.ErrStorageNotReady
	}
	cached, delegator, err := l.build()
	if err != nil {
		return nil, err
	}
	c := &caching{CacheDelegator: delegator, cacher: cached, filled: make(chan struct{})}
	l.begun = c
	go l.fill(c)
	return c, nil
}

// fill waits until the cache is filled.
func (l *lazy) fill(c *caching) {
	ctx := wait.ContextForChannel(l.done)
	if c.cacher.Wait(ctx) != nil {
		return // stopped
	}
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		// The cache does not tell the version it was filled with: it is not after the one of now.
		version, err := l.GetCurrentResourceVersion(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // etcd answers again, or the storage is stopped
		}
		c.from = version
		l.ready.Store(c)
		close(c.filled)
		return true, nil
	})
}

func (l *lazy) stopped() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// stop ends the cache, and keeps another from beginning.
func (l *lazy) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped() {
		return
	}
	close(l.done)
	if l.begun != nil {
		l.begun.Stop()
		l.begun.cacher.Stop()
		l.begun = nil
	}
}

// now is what answers at the moment.
func (l *lazy) now() storage.Interface {
	if c := l.ready.Load(); c != nil {
		return c
	}
	return l.Interface
}

// Watch implements storage.Interface. A watch from a version that was before the cache goes to etcd, which remembers.
func (l *lazy) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	c, err := l.begin()
	if err != nil {
		return nil, err
	}
	from, err := l.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	initial := from == 0 || opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if ready := l.ready.Load(); !initial && (ready == nil || from < ready.from) {
		opts.ProgressNotify = opts.Predicate.AllowWatchBookmarks
		return l.Interface.Watch(ctx, key, opts)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.filled:
	case <-timer.C:
	case <-ctx.Done():
	}
	return c.Watch(ctx, key, opts)
}

// Get implements storage.Interface.
func (l *lazy) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	return l.now().Get(ctx, key, opts, out)
}

// GetList implements storage.Interface. Who does not need the newest version is about to watch, or asks often.
func (l *lazy) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if l.ready.Load() == nil && (opts.ResourceVersion == "0" || l.lists.Add(1) > manyLists) {
		if _, err := l.begin(); err != nil {
			return err
		}
	}
	return l.now().GetList(ctx, key, opts, list)
}

// Delete implements storage.Interface.
func (l *lazy) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, existing runtime.Object, opts storage.DeleteOptions) error {
	return l.now().Delete(ctx, key, out, preconditions, validate, existing, opts)
}

// GuaranteedUpdate implements storage.Interface.
func (l *lazy) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, update storage.UpdateFunc, existing runtime.Object) error {
	return l.now().GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, existing)
}

// ReadinessCheck implements storage.Interface.
func (l *lazy) ReadinessCheck() error { return l.now().ReadinessCheck() }

// CompactRevision implements storage.Interface.
func (l *lazy) CompactRevision() int64 { return l.now().CompactRevision() }

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage connects the generic registry to etcd: codecs, keys, watch caches and compaction. Touch it when the
// way objects are kept changes, for all resources alike.
package storage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/etcd"
)

// Prefix is where all keys are, as upstream's default.
const Prefix = "/registry"

// Config of the storage of one API server.
type Config struct {
	Backend etcd.Backend
	// Scheme holds the stored types; the preferred version of each group is the one that is stored.
	Scheme *runtime.Scheme
	// CompactionInterval is how long old revisions can be read; 0 means five minutes, negative never compacts.
	CompactionInterval time.Duration
	// ObjectCounts feeds the work estimator of priority and fairness; may be nil.
	ObjectCounts flowcontrolrequest.StorageObjectCountTracker
}

// Factory gives each resource its storage. It implements generic.RESTOptionsGetter.
type Factory struct {
	config    Config
	codecs    serializer.CodecFactory
	compactor etcd3.Compactor
	stop      func()
}

var _ generic.RESTOptionsGetter = (*Factory)(nil)

// NewFactory returns a factory and starts compaction; Stop ends it.
func NewFactory(c Config) *Factory {
	if c.CompactionInterval == 0 {
		c.CompactionInterval = storagebackend.DefaultCompactInterval
	}
	if c.CompactionInterval < 0 {
		c.CompactionInterval = 0
	}
	// Without this, watch caches think that etcd cannot report its progress, and make clients wait for what never comes.
	etcdfeature.DefaultFeatureSupportChecker.CheckClient(context.Background(), c.Backend, storage.RequestWatchProgress)
	client := c.Backend.NewClient()
	compactor := etcd3.NewCompactor(client, c.CompactionInterval, clock.RealClock{}, nil)
	var once sync.Once
	return &Factory{
		config:    c,
		codecs:    serializer.NewCodecFactory(c.Scheme),
		compactor: compactor,
		stop: func() {
			once.Do(func() {
				compactor.Stop()
				client.Close()
			})
		},
	}
}

// Stop ends compaction. The stores of resources are stopped by the API server.
func (f *Factory) Stop() { f.stop() }

// prefixes are the keys that differ from the name of the resource, as upstream's default layout has them.
var prefixes = map[schema.GroupResource]string{
	{Resource: "replicationcontrollers"}:                "controllers",
	{Resource: "endpoints"}:                             "services/endpoints",
	{Resource: "nodes"}:                                 "minions",
	{Resource: "services"}:                              "services/specs",
	{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
}

// uncached are written far more often than read; events are also served by two groups, which would cache them twice.
var uncached = map[string]bool{"events": true}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (f *Factory) GetRESTOptions(gr schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config, err := f.ForResource(gr)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	prefix, ok := prefixes[gr]
	if !ok {
		prefix = gr.Resource
	}
	decorator := generic.StorageDecorator(f.cached)
	if uncached[gr.Resource] {
		decorator = f.uncached
	}
	return generic.RESTOptions{
		StorageConfig:             config,
		Decorator:                 decorator,
		EnableGarbageCollection:   true,
		DeleteCollectionWorkers:   1,
		ResourcePrefix:            prefix,
		CountMetricPollPeriod:     time.Minute,
		StorageObjectCountTracker: f.config.ObjectCounts,
	}, nil
}

// ForResource returns the encoding of one resource.
func (f *Factory) ForResource(gr schema.GroupResource) (*storagebackend.ConfigForResource, error) {
	versions := f.config.Scheme.PrioritizedVersionsForGroup(gr.Group)
	if len(versions) == 0 {
		return nil, fmt.Errorf("group %q is not registered", gr.Group)
	}
	config := storagebackend.NewDefaultConfig(Prefix, nil)
	codec, versioner, err := serverstorage.NewStorageCodec(serverstorage.StorageCodecConfig{
		StorageMediaType:  runtime.ContentTypeProtobuf,
		StorageSerializer: f.codecs,
		StorageVersion:    versions[0],
		MemoryVersion:     schema.GroupVersion{Group: gr.Group, Version: runtime.APIVersionInternal},
		Config:            *config,
	})
	if err != nil {
		return nil, fmt.Errorf("making storage codec: %w", err)
	}
	config.Codec, config.EncodeVersioner = codec, versioner
	config.StorageObjectCountTracker = f.config.ObjectCounts
	return config.ForResource(gr), nil
}

// cached is a generic.StorageDecorator: etcd behind a watch cache.
func (f *Factory) cached(c *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	raw, stopRaw, err := f.Raw(c, resourcePrefix, newFunc, newListFunc)
	if err != nil {
		return nil, nil, err
	}
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             raw,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       c.GroupResource,
		EventsHistoryWindow: c.EventsHistoryWindow,
		ResourcePrefix:      resourcePrefix,
		KeyFunc:             keyFunc,
		GetAttrsFunc:        attrs,
		IndexerFuncs:        triggers,
		Indexers:            indexers,
		NewFunc:             newFunc,
		NewListFunc:         newListFunc,
		Codec:               c.Codec,
	})
	if err != nil {
		stopRaw()
		return nil, nil, err
	}
	delegator := cacher.NewCacheDelegator(cached, raw)
	var once sync.Once
	return delegator, func() {
		once.Do(func() {
			delegator.Stop()
			cached.Stop()
			stopRaw()
		})
	}, nil
}

// uncached is a generic.StorageDecorator: etcd alone.
func (f *Factory) uncached(c *storagebackend.ConfigForResource, resourcePrefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	return f.Raw(c, resourcePrefix, newFunc, newListFunc)
}

// Raw is the storage of a resource without a watch cache, on a client of its own.
func (f *Factory) Raw(c *storagebackend.ConfigForResource, resourcePrefix string, newFunc, newListFunc func() runtime.Object) (storage.Interface, factory.DestroyFunc, error) {
	client := &kubernetes.Client{Client: f.config.Backend.NewClient()}
	client.Kubernetes = client
	transformer := c.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	s, err := etcd3.New(client, f.compactor, c.Codec, newFunc, newListFunc, c.Prefix, resourcePrefix, c.GroupResource,
		transformer, c.LeaseManagerConfig, etcd3.NewDefaultDecoder(c.Codec, versioner), versioner)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	var once sync.Once
	return s, func() {
		once.Do(func() {
			s.Close()
			client.Close()
		})
	}, nil
}

// Healthy reports whether the store answers, for health checks.
func (f *Factory) Healthy(ctx context.Context) error { return f.config.Backend.Healthy(ctx) }

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdstore connects the generic registry to etcd: codecs, keys, watch caches and compaction. Touch it when the
// way objects are kept changes, for all resources alike.
package etcdstore

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/registry/etcdstore/sharing"
)

// Prefix is where all keys are, as upstream's default.
const Prefix = "/registry"

// Config of the storage of one API server.
type Config struct {
	Backend etcd.Backend
	// Scheme holds the stored types; the preferred version of each group that has a kind is the one that is stored.
	Scheme *runtime.Scheme
	// ObjectCounts feeds the work estimator of priority and fairness; may be nil.
	ObjectCounts flowcontrolrequest.StorageObjectCountTracker
	// Transformers encrypt what is stored; nil: nothing is.
	Transformers value.ResourceTransformers
	Options
}

// Options are what an operator may want otherwise. The zero value has upstream's defaults.
type Options struct {
	// Prefix is where all keys are; default "/registry".
	Prefix string
	// CompactionInterval is how long old revisions can be read; 0 means five minutes, negative never compacts.
	CompactionInterval time.Duration
	// MediaType of what is stored; default protobuf.
	MediaType string
	// CountPollPeriod is how often objects are counted, for metrics; 0 means a minute, negative never.
	CountPollPeriod time.Duration
	// EventsHistoryWindow is how long watch caches remember events at least; 0 leaves it to them.
	EventsHistoryWindow time.Duration
	// Leases says how many objects with a limited life share one lease of etcd.
	Leases etcd3.LeaseManagerConfig
	// DeleteCollectionWorkers delete at the same time; default 1.
	DeleteCollectionWorkers int
	// NoWatchCache reads from etcd always; Uncached does so for some resources.
	NoWatchCache bool
	Uncached     map[schema.GroupResource]bool
	// NoGarbageCollection removes no dependents and honours no propagation policy.
	NoGarbageCollection bool
	// Overrides are resources that are kept elsewhere than in Backend.
	Overrides []Override
	// Objects are what watch caches, and informers of the same process, share memory by; default: of these watch caches alone.
	Objects *sharing.Objects
}

// Override is resources with an etcd of their own. Events of both groups are one resource.
type Override struct {
	Resources []schema.GroupResource
	Backend   etcd.Backend
}

func (o *Options) complete() {
	if o.Prefix == "" {
		o.Prefix = Prefix
	}
	if o.MediaType == "" {
		o.MediaType = runtime.ContentTypeProtobuf
	}
	if o.CountPollPeriod == 0 {
		o.CountPollPeriod = time.Minute
	}
	if o.Objects == nil {
		o.Objects = &sharing.Objects{}
	}
	if o.DeleteCollectionWorkers == 0 {
		o.DeleteCollectionWorkers = 1
	}
	if o.Leases == (etcd3.LeaseManagerConfig{}) {
		o.Leases = etcd3.NewDefaultLeaseManagerConfig()
	}
}

// Factory gives each resource its storage. It implements generic.RESTOptionsGetter.
type Factory struct {
	config   Config
	codecs   serializer.CodecFactory
	clusters []*Cluster                        // that of most resources, and those of Overrides
	override map[schema.GroupResource]*Cluster // of resources that are kept elsewhere
}

var _ generic.RESTOptionsGetter = (*Factory)(nil)

// NewFactory returns a factory and starts compaction; Stop ends it.
func NewFactory(c Config) *Factory {
	c.complete()
	if c.CompactionInterval == 0 {
		c.CompactionInterval = storagebackend.DefaultCompactInterval
	}
	if c.CompactionInterval < 0 {
		c.CompactionInterval = 0
	}
	f := &Factory{
		config:   c,
		codecs:   serializer.NewCodecFactory(c.Scheme),
		clusters: []*Cluster{newCluster(c.Backend, c.CompactionInterval)},
		override: map[schema.GroupResource]*Cluster{},
	}
	for _, o := range c.Overrides {
		cluster := newCluster(o.Backend, c.CompactionInterval)
		f.clusters = append(f.clusters, cluster)
		for _, gr := range o.Resources {
			f.override[stored(gr)] = cluster
		}
	}
	return f
}

// Stop ends compaction. The stores of resources are stopped by the API server.
func (f *Factory) Stop() {
	for _, c := range f.clusters {
		c.stop()
	}
}

// Clusters are where resources are kept: most in the first, those of Overrides in the others, in their order.
func (f *Factory) Clusters() []*Cluster { return f.clusters }

// Objects are what watch caches share memory by.
func (f *Factory) Objects() *sharing.Objects { return f.config.Objects }

// stored is the resource by whose name the objects of a resource are kept.
func stored(gr schema.GroupResource) schema.GroupResource {
	if gr.Group == eventsv1.GroupName {
		gr.Group = corev1.GroupName
	}
	return gr
}

// clusterOf is where a resource is kept.
func (f *Factory) clusterOf(gr schema.GroupResource) *Cluster {
	if c := f.override[stored(gr)]; c != nil {
		return c
	}
	return f.clusters[0]
}

// prefixes are the keys that differ from the name of the resource, as upstream's default layout has them.
var prefixes = map[schema.GroupResource]string{
	{Resource: "replicationcontrollers"}:                "controllers",
	{Resource: "endpoints"}:                             "services/endpoints",
	{Resource: "nodes"}:                                 "minions",
	{Resource: "services"}:                              "services/specs",
	{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
}

// uncached are written far more often than read; events are also served by two groups, which would cache them twice, and
// ranges are kept in objects without names, as upstream's, which no cache can hold.
var uncached = map[string]bool{"events": true, "ranges": true}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (f *Factory) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	config, err := f.ForResource(gr, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	prefix, ok := prefixes[gr]
	if !ok {
		prefix = gr.Resource
	}
	decorator := generic.StorageDecorator(f.cached)
	if uncached[gr.Resource] || f.config.NoWatchCache || f.config.Uncached[gr] {
		decorator = f.uncached
	}
	return f.options(config, prefix, decorator), nil
}

func (f *Factory) options(config *storagebackend.ConfigForResource, prefix string, decorator generic.StorageDecorator) generic.RESTOptions {
	return generic.RESTOptions{
		StorageConfig:             config,
		Decorator:                 decorator,
		EnableGarbageCollection:   !f.config.NoGarbageCollection,
		DeleteCollectionWorkers:   f.config.DeleteCollectionWorkers,
		ResourcePrefix:            prefix,
		CountMetricPollPeriod:     max(f.config.CountPollPeriod, 0),
		StorageObjectCountTracker: f.config.ObjectCounts,
	}
}

// base is the storage of a resource apart from its encoding.
func (f *Factory) base(gr schema.GroupResource) *storagebackend.Config {
	config := storagebackend.NewDefaultConfig(f.config.Prefix, nil)
	config.StorageObjectCountTracker = f.config.ObjectCounts
	config.LeaseManagerConfig, config.EventsHistoryWindow = f.config.Leases, max(config.EventsHistoryWindow, f.config.EventsHistoryWindow)
	if f.config.Transformers != nil {
		config.Transformer = f.config.Transformers.TransformerForResource(gr)
	}
	return config
}

// ForResource returns the encoding of one resource, of whose objects example is one.
func (f *Factory) ForResource(gr schema.GroupResource, example runtime.Object) (*storagebackend.ConfigForResource, error) {
	versions := f.config.Scheme.PrioritizedVersionsForGroup(gr.Group)
	if len(versions) == 0 {
		return nil, fmt.Errorf("group %q is not registered", gr.Group)
	}
	config := f.base(gr)
	codec, versioner, err := serverstorage.NewStorageCodec(serverstorage.StorageCodecConfig{
		StorageMediaType:  f.config.MediaType,
		StorageSerializer: f.codecs,
		StorageVersion:    f.preferred(versions, example),
		MemoryVersion:     schema.GroupVersion{Group: gr.Group, Version: runtime.APIVersionInternal},
		Config:            *config,
	})
	if err != nil {
		return nil, fmt.Errorf("making storage codec: %w", err)
	}
	config.Codec, config.EncodeVersioner = codec, versioner
	return config.ForResource(gr), nil
}

// preferred is the first of the versions of a group that has the kind of example: a beta kind may be in none before.
func (f *Factory) preferred(versions []schema.GroupVersion, example runtime.Object) schema.GroupVersion {
	kinds, _, err := f.config.Scheme.ObjectKinds(example)
	if err != nil {
		return versions[0] // of no kind that clients see
	}
	for _, v := range versions {
		if slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.GroupVersion() == v }) {
			return v
		}
	}
	return versions[0]
}

// cached is a generic.StorageDecorator: etcd behind a watch cache.
func (f *Factory) cached(c *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	raw, stopRaw, err := f.Raw(c, resourcePrefix, newFunc, newListFunc)
	if err != nil {
		return nil, nil, err
	}
	cached, delegator, err := f.newCache(raw, c, resourcePrefix, keyFunc, newFunc, newListFunc, attrs, triggers, indexers)
	if err != nil {
		stopRaw()
		return nil, nil, err
	}
	var once sync.Once
	return delegator, func() {
		once.Do(func() {
			delegator.Stop()
			cached.Stop()
			stopRaw()
		})
	}, nil
}

// newCache begins a watch cache in front of raw.
func (f *Factory) newCache(raw storage.Interface, c *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers) (*cacher.Cacher, *cacher.CacheDelegator, error) {
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             f.config.Objects.Storage(raw, newFunc()),
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
		return nil, nil, err
	}
	return cached, cacher.NewCacheDelegator(cached, raw), nil
}

// uncached is a generic.StorageDecorator: etcd alone.
func (f *Factory) uncached(c *storagebackend.ConfigForResource, resourcePrefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	return f.Raw(c, resourcePrefix, newFunc, newListFunc)
}

// Raw is the storage of a resource without a watch cache, on a client of its own.
func (f *Factory) Raw(c *storagebackend.ConfigForResource, resourcePrefix string, newFunc, newListFunc func() runtime.Object) (storage.Interface, factory.DestroyFunc, error) {
	cluster := f.clusterOf(c.GroupResource)
	client := &kubernetes.Client{Client: cluster.backend.NewClient()}
	client.Kubernetes = client
	client.KV = etcd3.NewETCDLatencyTracker(client.KV) // of what is slow, audit tells how long it waited for etcd
	transformer := c.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	decode := etcd3.Decoder(decoder{etcd3.NewDefaultDecoder(c.Codec, versioner)})
	tellCorrupt := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if tellCorrupt {
		transformer, decode = etcd3.WithCorruptObjErrorHandlingTransformer(transformer), etcd3.WithCorruptObjErrorHandlingDecoder(decode)
	}
	s, err := etcd3.New(client, cluster.compactor, c.Codec, newFunc, newListFunc, c.Prefix, resourcePrefix, c.GroupResource,
		transformer, c.LeaseManagerConfig, decode, versioner)
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	kept := storage.Interface(s)
	if tellCorrupt {
		kept = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(s, c.GroupResource)
	}
	var once sync.Once
	return kept, func() {
		once.Do(func() {
			s.Close()
			_ = client.Close()
		})
	}, nil
}

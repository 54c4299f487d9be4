// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
)

// watch keeps what is wanted of the API, and tells when something of it has changed.
type watch struct {
	cache  cache.Cache
	client client.Client
	// definitions has the names of custom resources' definitions.
	definitions toolscache.SharedIndexInformer
	// trigger has an element when something has changed.
	trigger chan struct{}

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]watched // guarded by mu
}

// watched is a kind that is watched.
type watched struct {
	synced func() bool
	// stop ends the wait until it has been listed.
	stop context.CancelFunc
}

// clusterScoped are the kinds that are in no namespace.
var clusterScoped = map[string]bool{"Namespace": true, "IngressClass": true, "GatewayClass": true, "CustomResourceDefinition": true}

// newScheme has the kinds that the router reads.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, gatewayv1.Install, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// mapper knows the kinds of the scheme, and so nobody has to be asked for them.
func mapper(scheme *runtime.Scheme) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		if clusterScoped[gvk.Kind] {
			scope = meta.RESTScopeRoot
		}
		switch gvk.Kind { // whose plural nobody guesses
		case "Gateway":
			resource := gvk.GroupVersion().WithResource("gateways")
			m.AddSpecific(gvk, resource, resource.GroupVersion().WithResource("gateway"), scope)
			continue
		case "Dns":
			m.AddSpecific(gvk, v1alpha1.Resource, v1alpha1.Resource, scope)
			continue
		}
		m.Add(gvk, scope)
	}
	return m
}

// definitions are those of custom resources, of which only the names are read.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func newWatch(config *rest.Config) (*watch, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	w := &watch{trigger: make(chan struct{}, 1), watched: map[schema.GroupVersionKind]watched{}}
	// Custom resources have no protobuf. The clients choose it themselves for what has.
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", ""
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if err := w.watchDefinitions(config, httpClient); err != nil {
		return nil, fmt.Errorf("watching definitions: %w", err)
	}
	mapper := mapper(scheme)
	w.cache, err = cache.New(config, cache.Options{
		HTTPClient: httpClient, Scheme: scheme, Mapper: mapper, DefaultTransform: onlyNeeded,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS))},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	w.client, err = client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return w, nil
}

// discoveryTime is what it may take to be told which kinds there are.
const discoveryTime = 10 * time.Second

func newDiscovery(config *rest.Config) (discovery.DiscoveryInterface, error) {
	config = rest.CopyConfig(config)
	config.Timeout = discoveryTime
	return discovery.NewDiscoveryClientForConfig(config)
}

func (w *watch) run(ctx context.Context) error {
	w.poke()
	var names sync.WaitGroup
	defer names.Wait()
	names.Go(func() { w.definitions.RunWithContext(ctx) })
	return w.cache.Start(ctx)
}

// watchDefinitions makes the watch of the definitions. It is none of the cache's, whose watches of names alone leave something
// behind when they are stopped.
func (w *watch) watchDefinitions(config *rest.Config, httpClient *http.Client) error {
	c, err := metadata.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	w.definitions = metadatainformer.NewFilteredMetadataInformer(c, definitions, metav1.NamespaceAll, 0, toolscache.Indexers{}, nil).Informer()
	if err := w.definitions.SetTransform(onlyNeeded); err != nil {
		return err
	}
	_, err = w.definitions.AddEventHandler(w.handler())
	return err
}

// handler triggers for whatever happens.
func (w *watch) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.poke() }, UpdateFunc: func(any, any) { w.poke() }, DeleteFunc: func(any) { w.poke() },
	}
}

func (w *watch) poke() {
	select {
	case w.trigger <- struct{}{}:
	default:
	}
}

// ask begins to watch kinds, and tells whether all of them have been listed. Once they have, it triggers.
func (w *watch) ask(ctx context.Context, kinds ...client.Object) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := true
	for _, kind := range kinds {
		gvk, err := w.client.GroupVersionKindFor(kind)
		if err != nil {
			return false, err
		}
		if _, there := w.watched[gvk]; !there {
			informer, err := w.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
			if err != nil {
				return false, fmt.Errorf("watching %s: %w", gvk.Kind, err)
			}
			if _, err := informer.AddEventHandler(w.handler()); err != nil {
				return false, fmt.Errorf("watching %s: %w", gvk.Kind, err)
			}
			ctx, stop := context.WithCancel(ctx)
			w.watched[gvk] = watched{synced: informer.HasSynced, stop: stop}
			go func() { // a kind of which there is none has no event
				if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
					w.poke()
				}
			}()
		}
		all = all && w.watched[gvk].synced()
	}
	return all, nil
}

// leave ends the watches of kinds that nobody needs any more.
func (w *watch) leave(ctx context.Context, kinds ...client.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range kinds {
		gvk, err := w.client.GroupVersionKindFor(kind)
		if err != nil {
			return err
		}
		left, there := w.watched[gvk]
		if !there {
			continue
		}
		if err := w.cache.RemoveInformer(ctx, kind); err != nil {
			return fmt.Errorf("ending the watch of %s: %w", gvk.Kind, err)
		}
		left.stop()
		delete(w.watched, gvk)
	}
	return nil
}

// onlyNeeded drops what nobody here reads from an object that the cache keeps.
func onlyNeeded(obj any) (any, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil
	}
	o.SetManagedFields(nil)
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		o.Annotations, o.Labels = nil, nil
	case *corev1.ConfigMap:
		o.Annotations, o.Labels, o.BinaryData = nil, nil, nil
		maps.DeleteFunc(o.Data, func(key, _ string) bool { return key != resolve.AuthoritiesKey })
	case *discoveryv1.EndpointSlice:
		for i := range o.Endpoints {
			o.Endpoints[i].TargetRef, o.Endpoints[i].NodeName, o.Endpoints[i].Zone, o.Endpoints[i].Hints = nil, nil, nil, nil
		}
	}
	return obj, nil
}

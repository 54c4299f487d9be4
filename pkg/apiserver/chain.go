// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"minik8s.io/minik8s/pkg/apiserver/aggregator"
	"minik8s.io/minik8s/pkg/apiserver/customresources"
	"minik8s.io/minik8s/pkg/apiserver/generic"
	"minik8s.io/minik8s/pkg/apiserver/openapi"
	"minik8s.io/minik8s/pkg/registry"
)

// access is how the server looks at its own objects, and at those that webhooks and aggregated servers are.
type access struct {
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	shared   informers.SharedInformerFactory
	services webhook.ServiceResolver
	webhooks webhook.AuthenticationInfoResolverWrapper
}

func newAccess(b *generic.Builder, c Config) (*access, error) {
	a := &access{webhooks: b.WebhookAuthentication(), services: c.ServiceResolver}
	var err error
	if a.client, err = kubernetes.NewForConfig(b.Loopback); err != nil {
		return nil, fmt.Errorf("making loopback client: %w", err)
	}
	if a.dynamic, err = dynamic.NewForConfig(b.Loopback); err != nil {
		return nil, fmt.Errorf("making dynamic loopback client: %w", err)
	}
	a.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(a.client.Discovery()))
	a.shared = informers.NewSharedInformerFactoryWithOptions(a.client, 0, informers.WithTransform(b.Storage.Objects().Transform))
	if a.services == nil {
		a.services, err = serviceResolver(b, a.shared, c.AggregatorRouting)
	}
	return a, err
}

// serviceResolver finds Services by their cluster IPs, or if toEndpoints by those of their pods, and the Service kubernetes
// in this process.
func serviceResolver(b *generic.Builder, shared informers.SharedInformerFactory, toEndpoints bool) (webhook.ServiceResolver, error) {
	services := shared.Core().V1().Services().Lister()
	resolver := aggregatorapiserver.NewClusterIPServiceResolver(services)
	if toEndpoints {
		slices, err := proxy.NewEndpointSliceIndexerGetter(shared.Discovery().V1().EndpointSlices())
		if err != nil {
			return nil, fmt.Errorf("indexing EndpointSlices: %w", err)
		}
		resolver = aggregatorapiserver.NewEndpointServiceResolver(services, slices)
	}
	self, err := url.Parse(b.Loopback.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the loopback address: %w", err)
	}
	return aggregatorapiserver.NewLoopbackServiceResolver(resolver, self), nil
}

// start fills caches, and forgets kinds from time to time, so that new ones are found.
func (a *access) start(hook genericapiserver.PostStartHookContext) error {
	a.shared.Start(hook.Done())
	go wait.UntilWithContext(hook, func(context.Context) { a.mapper.Reset() }, 30*time.Second)
	return nil
}

// newChain builds the servers that a request goes through: the aggregator, the built-in resources, the custom resources. It
// returns the first, which runs the others, and the one of the built-in resources.
func newChain(b *generic.Builder, a *access, c Config, deps registry.Config, decorate func(*genericapiserver.GenericAPIServer) error) (*genericapiserver.GenericAPIServer, error) {
	custom, err := customresources.New(b, a.shared, customresources.Config{Services: a.services, Authentication: a.webhooks})
	if err != nil {
		return nil, err
	}
	builtIn, err := b.Finish(deps, custom.GenericAPIServer)
	if err != nil {
		return nil, err
	}
	if err := decorate(builtIn); err != nil {
		return nil, err
	}
	crds := custom.Informers.Apiextensions().V1().CustomResourceDefinitions()
	first, err := aggregator.New(b, a.shared, builtIn, crds, aggregator.Config{
		Services: a.services, ClientCertFile: c.ProxyClientCertFile, ClientKeyFile: c.ProxyClientKeyFile, RejectRedirects: c.RejectAggregatorRedirects,
		Offered: offered(c),
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"apiservice-openapi-controller", "apiservice-openapiv3-controller"} {
		if err := first.AddPostStartHook(name, published); err != nil {
			return nil, err
		}
	}
	openapi.Install(first.Handler.NonGoRestfulMux, b.OpenAPI, openapi.Sources{
		Servers:         []*genericapiserver.GenericAPIServer{first.GenericAPIServer, builtIn, custom.GenericAPIServer},
		CustomResources: crds.Lister(),
		Remote:          first.Remotes,
	})
	return first.GenericAPIServer, nil
}

// offered is what is served here unless an APIService names another server.
func offered(c Config) []schema.GroupVersion {
	if c.Usage == nil {
		return nil
	}
	return []schema.GroupVersion{metricsv1beta1.SchemeGroupVersion}
}

// published is the hook of what begins to publish OpenAPI documents, by whose name it is looked for in /healthz: here they are
// made when somebody asks, so that they are there as soon as the server is.
func published(genericapiserver.PostStartHookContext) error { return nil }

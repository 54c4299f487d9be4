// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package aggregator is the first server of the chain: by APIServices, it passes requests to aggregated servers or on to the
// built-in resources and custom resources, and it answers discovery for all. It is made of k8s.io/kube-aggregator. Touch it
// when APIServices are registered or reached differently.
package aggregator

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	apiregistrationinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"minik8s.io/minik8s/pkg/apiserver/generic"
)

// Config says how aggregated servers are reached.
type Config struct {
	// Services finds them.
	Services webhook.ServiceResolver
	// ClientCertFile and ClientKeyFile prove to them that a request comes from here; may be empty.
	ClientCertFile, ClientKeyFile string
	// RejectRedirects refuses to pass their redirects on.
	RejectRedirects bool
	// Offered group versions are served here for as long as nobody has another server for them.
	Offered []schema.GroupVersion
}

// Server is the aggregator.
type Server struct {
	*genericapiserver.GenericAPIServer
	services    webhook.ServiceResolver
	certificate func() (cert, key []byte)
	apiServices apiregistrationinformers.APIServiceInformer

	mu      sync.Mutex // guards remotes
	remotes map[string]*remote
}

// New builds the first server of the chain that b prepares, before next. crds are the definitions whose groups it registers.
func New(b *generic.Builder, shared informers.SharedInformerFactory, next *genericapiserver.GenericAPIServer, crds apiextensionsinformers.CustomResourceDefinitionInformer, c Config) (*Server, error) {
	storage := b.Storage.Encoded(
		aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion, apiregistrationv1beta1.SchemeGroupVersion),
		runtime.NewMultiGroupVersioner(apiregistrationv1.SchemeGroupVersion, schema.GroupKind{Group: apiregistrationv1beta1.GroupName}),
	)
	resources := aggregatorapiserver.DefaultAPIResourceConfigSource()
	resources.DisableVersions(apiregistrationv1beta1.SchemeGroupVersion)
	config := aggregatorapiserver.Config{
		GenericConfig: b.Chained(storage, resources, shared),
		ExtraConfig: aggregatorapiserver.ExtraConfig{
			ServiceResolver: c.Services, ProxyClientCertFile: c.ClientCertFile, ProxyClientKeyFile: c.ClientKeyFile, RejectForwardingRedirects: c.RejectRedirects,
		},
	}
	server, err := config.Complete().NewWithDelegate(next)
	if err != nil {
		return nil, fmt.Errorf("building the aggregator: %w", err)
	}
	client, err := apiregistrationclient.NewForConfig(b.Loopback)
	if err != nil {
		return nil, fmt.Errorf("making a client for APIServices: %w", err)
	}
	s := &Server{
		GenericAPIServer: server.GenericAPIServer,
		services:         c.Services,
		certificate:      pair(c.ClientCertFile, c.ClientKeyFile),
		apiServices:      server.APIRegistrationInformers.Apiregistration().V1().APIServices(),
		remotes:          map[string]*remote{},
	}
	register := autoregister.NewAutoRegisterController(s.apiServices, client)
	builtIn := builtInServices(next.ListedPaths())
	for _, a := range builtIn {
		register.AddAPIServiceToSyncOnStart(a)
	}
	for gv, p := range priorities {
		s.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), int(p.group), int(p.version))
	}
	for _, gv := range c.Offered {
		s.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), int(offeredPriority.group), int(offeredPriority.version))
	}
	custom, err := newRegistration(crds, register)
	if err != nil {
		return nil, err
	}
	s.AddPostStartHookOrDie("kube-apiserver-autoregistration", func(hook genericapiserver.PostStartHookContext) error {
		go func() {
			// Without the definitions that are there, the controller would delete their APIServices.
			if custom.waitForSync(hook) {
				register.Run(5, hook.Done())
			}
		}()
		go custom.run(hook)
		return nil
	})
	if err := s.offer(c.Offered, client); err != nil {
		return nil, err
	}
	check, err := allAvailable("autoregister-completion", builtIn, s.apiServices)
	if err != nil {
		return nil, err
	}
	if err := s.AddBootSequenceHealthChecks(check); err != nil {
		return nil, fmt.Errorf("adding a health check: %w", err)
	}
	return s, nil
}

// builtInServices are the APIServices of the group versions among paths, which are served here.
func builtInServices(paths []string) []*apiregistrationv1.APIService {
	var all []*apiregistrationv1.APIService
	for _, path := range paths {
		var gv schema.GroupVersion
		switch parts := strings.Split(path, "/"); {
		case path == "/api/v1":
			gv.Version = "v1"
		case len(parts) == 4 && parts[1] == "apis":
			gv = schema.GroupVersion{Group: parts[2], Version: parts[3]}
		default:
			continue
		}
		if p, ok := priorities[gv]; ok {
			all = append(all, localService(gv, p))
		}
	}
	return all
}

// localService is the APIService of a group version that is served here.
func localService(gv schema.GroupVersion, p priority) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.group, VersionPriority: p.version},
	}
}

// allAvailable is a check that fails until each of the services has been available once.
func allAvailable(name string, services []*apiregistrationv1.APIService, informer apiregistrationinformers.APIServiceInformer) (healthz.HealthChecker, error) {
	var mu sync.Mutex // guards missing
	missing := sets.New[string]()
	for _, s := range services {
		missing.Insert(s.Name)
	}
	seen := func(obj any) {
		if s, ok := obj.(*apiregistrationv1.APIService); ok && helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available) {
			mu.Lock()
			defer mu.Unlock()
			missing.Delete(s.Name)
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, obj any) { seen(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching APIServices: %w", err)
	}
	return healthz.NamedCheck(name, func(*http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if missing.Len() > 0 {
			return fmt.Errorf("missing APIService: %v", sets.List(missing))
		}
		return nil
	}), nil
}

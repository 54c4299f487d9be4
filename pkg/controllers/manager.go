// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/kubeapiserverclustertrustbundlepublisher"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/rootcacertpublisher"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Controllers is the set of control loops of one process.
type Controllers struct {
	manager manager.Manager
	barrier *ownwrites.Barrier
	events  []*events
}

// New wires up the enabled controllers. It starts nothing and does not need the API server yet.
func New(cfg Config) (*Controllers, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	enabled, err := selectEnabled(List(), cfg.Enabled)
	if err != nil {
		return nil, fmt.Errorf("selecting controllers: %w", err)
	}
	informers := ownwrites.NewInformers(clientgoscheme.Scheme)
	mgr, err := newManager(cfg, informers)
	if err != nil {
		return nil, err
	}
	c := &Controllers{manager: mgr, barrier: ownwrites.NewBarrier(informers, mgr.GetAPIReader())}
	for _, entry := range enabled {
		env, err := c.env(cfg, entry)
		if err != nil {
			return nil, fmt.Errorf("preparing controller %q: %w", entry.Name, err)
		}
		if err := entry.Setup(env); err != nil {
			return nil, fmt.Errorf("setting up controller %q: %w", entry.Name, err)
		}
	}
	return c, nil
}

// Start runs the controllers until ctx ends and returns when all of them have stopped. It returns an error when this
// process loses the leader lease; the caller is expected to end then.
func (c *Controllers) Start(ctx context.Context) error {
	for _, e := range c.events {
		defer e.shutdown()
	}
	if err := c.manager.Start(ctx); err != nil {
		return fmt.Errorf("running controllers: %w", err)
	}
	return nil
}

// newManager returns a manager whose cache holds only what the controllers look at, and adds its informers to informers.
func newManager(cfg Config, informers *ownwrites.Informers) (manager.Manager, error) {
	renew, retry := cfg.LeaseDuration*2/3, cfg.LeaseDuration*2/15
	mgr, err := ctrl.NewManager(quiet(cfg.RESTConfig), manager.Options{
		Scheme:         clientgoscheme.Scheme,
		MapperProvider: newMapper,
		NewCache:       newCache(informers),
		Logger:         cfg.Logger,
		Cache: cache.Options{
			DefaultTransform: cfg.Transform,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.ConfigMap{}: {
					Namespaces: map[string]cache.Config{
						cache.AllNamespaces:    {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, rootcacertpublisher.ConfigMapName)},
						metav1.NamespacePublic: {},
					},
				},
				// Tokens of ServiceAccounts are anywhere, those that nodes join with are here.
				&corev1.Secret{}: {
					Namespaces: map[string]cache.Config{
						cache.AllNamespaces:    {FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken))},
						metav1.NamespaceSystem: {FieldSelector: fields.OneTermNotEqualSelector("type", string(corev1.SecretTypeOpaque))},
					},
				},
				&certificatesv1.ClusterTrustBundle{}: {
					Field: fields.OneTermEqualSelector("spec.signerName", kubeapiserverclustertrustbundlepublisher.SignerName),
				},
				&coordinationv1.Lease{}: {
					Namespaces: map[string]cache.Config{corev1.NamespaceNodeLease: {}},
				},
			},
		},
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		LeaderElection:                cfg.LeaderElection,
		LeaderElectionID:              "kube-controller-manager",
		LeaderElectionNamespace:       metav1.NamespaceSystem,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &cfg.LeaseDuration,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		// Several clusters may live in one test process.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true), Logger: cfg.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	if err := index.Add(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	return mgr, nil
}

// env prepares what one controller is set up with: its own identity over the shared cache.
func (c *Controllers) env(cfg Config, entry Controller) (setup.Env, error) {
	identity, name := cfg.RESTConfig, entry.Name
	if entry.ServiceAccount != "" {
		var err error
		if identity, err = cfg.ClientFor(entry.ServiceAccount); err != nil {
			return setup.Env{}, fmt.Errorf("getting the identity %q: %w", entry.ServiceAccount, err)
		}
		name = "system:serviceaccount:" + metav1.NamespaceSystem + ":" + entry.ServiceAccount
	}
	identity = quiet(identity)
	identity.UserAgent += "/" + name
	httpClient, err := rest.HTTPClientFor(identity)
	if err != nil {
		return setup.Env{}, fmt.Errorf("creating the HTTP client: %w", err)
	}
	options := client.Options{HTTPClient: httpClient, Scheme: c.manager.GetScheme(), Mapper: c.manager.GetRESTMapper()}
	live, err := client.New(identity, options)
	if err != nil {
		return setup.Env{}, fmt.Errorf("creating the live client: %w", err)
	}
	options.Cache = &client.CacheOptions{Reader: c.manager.GetCache()}
	cached, err := client.New(identity, options)
	if err != nil {
		return setup.Env{}, fmt.Errorf("creating the cached client: %w", err)
	}
	core, err := typedcorev1.NewForConfigAndClient(identity, httpClient)
	if err != nil {
		return setup.Env{}, fmt.Errorf("creating the event client: %w", err)
	}
	recorder := &events{
		scheme: c.manager.GetScheme(),
		source: corev1.EventSource{Component: cmp.Or(entry.EventSource, entry.ServiceAccount)},
		sink:   &typedcorev1.EventSinkImpl{Interface: core.Events("")},
		logger: cfg.Logger.WithValues("controller", entry.Name),
		clock:  cfg.Clock,
	}
	c.events = append(c.events, recorder)
	return setup.Env{
		Name:        entry.Name,
		Manager:     c.manager,
		Client:      ownwrites.NewClient(cached, c.manager.GetCache()),
		Barrier:     c.barrier,
		Live:        live,
		RESTConfig:  identity,
		HTTPClient:  httpClient,
		Events:      recorder,
		Clock:       cfg.Clock,
		Concurrency: cfg.Concurrency,
		RootCA:      cfg.RootCA,
		CheckPolicy: cfg.CheckPolicy,
		TokenKey:    cfg.TokenKey,
		SigningCA:   cfg.SigningCA,

		ClusterCIDRs: cfg.ClusterCIDRs, ServiceCIDRs: cfg.ServiceCIDRs, LoadBalancerPool: cfg.LoadBalancerPool,
		Settings: cfg.Settings,
	}, nil
}

// quiet returns a copy of cfg for a controller: deprecation warnings are no news to it, and without a limit of its own
// it relies on the server's priority and fairness. Compression would cost more than what it saves, as a watch each has its own.
// The field manager of what it writes is upstream's.
func quiet(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = useragent.Of("kube-controller-manager")
	cfg.DisableCompression = true
	cfg.WarningHandler = rest.NoWarnings{}
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	return cfg
}

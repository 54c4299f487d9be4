// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package router serves HTTP by the Ingresses, Gateways and Dns objects of the cluster: it is this project's ingress controller,
// controller of the Gateway API and proxy in one. Objects are watched (watch.go) and translated into one table of routes
// (internal/ingress, internal/gateway, internal/dns, internal/table); requests are answered by the table alone (internal/serve);
// what came of an object is written into its status (report.go), and a Gateway gets a Service (service.go). Touch this package for what is watched and when.
//
// A cluster that has none of them pays for a watch of Ingresses, of their classes, and of the names of custom
// resources: all else is watched when somebody needs it, and ports are opened when somebody asks for them.
package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/router/internal/dns"
	"minik8s.io/minik8s/pkg/router/internal/gateway"
	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/serve"
)

// passInterval is the least time between two tables: what changes meanwhile is in one.
const passInterval = 100 * time.Millisecond

// retryInterval is when a port that cannot be opened is tried again.
const retryInterval = 5 * time.Second

// Router is the router. It is used by one Start.
type Router struct {
	Config
	watch    *watch
	reporter *reporter
	server   *serve.Server
	keys     resolve.KeyPairs
	told     told
	// gatewayAPI and dnsAPI say which kinds there are.
	gatewayAPI, dnsAPI installed
	// attached are the Gateways as they were last read, and named the Dns objects.
	attached     *gateway.Output
	gatewaysUsed bool
	// tidy says that there is no class of this router's, and that no status speaks of it any more.
	tidy      bool
	named     *dns.Output
	dnsUsed   bool
	addresses addresses
}

// New returns a router that talks to nobody yet.
func New(c Config) (*Router, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	w, err := newWatch(c.REST)
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	d, err := newDiscovery(c.REST)
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	return &Router{
		Config: c, watch: w, reporter: newReporter(w.client, w.poke), told: told{}, attached: &gateway.Output{}, named: &dns.Output{},
		gatewayAPI: installed{client: d, group: schema.GroupVersion(gatewayv1.GroupVersion), read: slices.Concat(neededKinds, optionalKinds)},
		dnsAPI:     installed{client: d, group: v1alpha1.GroupVersion, read: []string{v1alpha1.Resource.Resource}},
	}, nil
}

// Start works until ctx ends, and has closed its ports when it returns.
func (r *Router) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.FromContext(ctx).WithName("router")))
	defer cancel()
	r.server = serve.New()
	defer r.server.Close()
	ended := make(chan error, 2)
	go func() { ended <- r.watch.run(ctx) }()
	go func() { ended <- r.reporter.run(ctx) }()
	r.work(ctx)
	return errors.Join(<-ended, <-ended)
}

// work makes a table whenever something has changed.
func (r *Router) work(ctx context.Context) {
	for {
		select {
		case <-r.watch.trigger:
		case <-ctx.Done():
			return
		}
		if err := r.pass(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Routes stay as they were")
			time.AfterFunc(retryInterval, r.watch.poke)
		}
		pause := time.NewTimer(passInterval)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

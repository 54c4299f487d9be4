// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package setup is what the controller manager hands to each controller when it wires it up. Touch it when all
// controllers need one more thing from the process they run in.
package setup

import (
	"net/http"
	"net/netip"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/pki"
)

// Env is the surroundings of one controller. Every field is set that does not say otherwise.
type Env struct {
	// Name is the controller's name in the list of controllers; it labels its metrics and logs.
	Name string
	// Manager owns the shared cache and runs the controller once this process leads.
	Manager manager.Manager
	// Client reads from the shared cache and writes as the controller's own service account.
	Client client.Client
	// Barrier is what each reconciler is put behind, so that no pass decides on a state older than the last write of the
	// passes before it. Within a pass a read may lack what the pass itself wrote.
	Barrier *ownwrites.Barrier
	// Live reads from the API server as the controller's own service account. It is for the few decisions which may
	// not rest on a cache.
	Live client.Reader
	// RESTConfig is the controller's own identity, for controllers that need another kind of client.
	RESTConfig *rest.Config
	// HTTPClient belongs to RESTConfig; clients built from it share connections.
	HTTPClient *http.Client
	// Events records events as the controller's own service account.
	Events record.EventRecorder
	// Clock is the source of time.
	Clock clock.WithTicker
	// Concurrency is the number of objects that the controller works on at the same time.
	Concurrency int
	// RootCA is the PEM bundle that pods trust the API server by.
	RootCA []byte
	// CheckPolicy returns what is wrong with the expressions of a policy; it may be nil.
	CheckPolicy func(*admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning
	// TokenKey is the private key (PEM) that signs the tokens kept in Secrets; it may be empty.
	TokenKey []byte
	// SigningCA signs approved certificate requests; it may be empty.
	SigningCA pki.Pair
	// ClusterCIDRs are the ranges that nodes get the ranges of their pods from, without what ServiceCIDRs take of them; both
	// may be empty.
	ClusterCIDRs, ServiceCIDRs []netip.Prefix
	// Settings are complete.
	Settings Settings
	// LoadBalancerPool is where Services of type LoadBalancer get their addresses from; it may be empty.
	LoadBalancerPool []netip.Prefix
}

// reconcileTimeout bounds one pass over one object. It is far above what a pass takes; it frees a worker whose requests nobody
// answers.
const reconcileTimeout = 2 * time.Minute

// Options returns the options that a controller is built with.
func (e Env) Options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: e.Concurrency,
		ReconciliationTimeout:   reconcileTimeout,
		RecoverPanic:            new(true),
	}
}

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"minik8s.io/minik8s/pkg/controllers/setup"
	"minik8s.io/minik8s/pkg/pki"
)

// Config says how the controllers reach the API server and which of them run.
type Config struct {
	// RESTConfig is the identity of the manager: it fills the shared cache and holds the leader lease. Required.
	RESTConfig *rest.Config
	// ClientFor returns the identity that a controller writes with, given the name of its service account in kube-system
	// (for example "replicaset-controller" for system:serviceaccount:kube-system:replicaset-controller, the subject of
	// upstream's bootstrap role bindings). Default: every controller writes as RESTConfig.
	ClientFor func(serviceAccount string) (*rest.Config, error)
	// RootCA is the PEM bundle published to every namespace as the ConfigMap kube-root-ca.crt. Required while
	// rootcacertpublisher is enabled.
	RootCA []byte
	// TokenKey is the private key (PEM) that signs the tokens kept in Secrets. Without one none are made.
	TokenKey []byte
	// SigningCA signs approved certificate requests. Without one none are signed.
	SigningCA pki.Pair
	// ClusterCIDRs are the ranges that nodes get the ranges of their pods from, one of a family or one of each. With none
	// nodes have to bring theirs.
	ClusterCIDRs []netip.Prefix
	// ServiceCIDRs are left out of the ranges of nodes.
	ServiceCIDRs []netip.Prefix
	// LoadBalancerPool is where Services of type LoadBalancer get their addresses from, by preference. Without one they get none.
	LoadBalancerPool []netip.Prefix
	// CheckPolicy returns what is wrong with the expressions of a ValidatingAdmissionPolicy, by the schemas of what it matches.
	// Default: nobody checks policies, and their status stays empty.
	CheckPolicy func(*admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning
	// Settings are those of kube-controller-manager's flags; what is nil has their defaults.
	Settings setup.Settings
	// Transform is what the shared cache does with objects as they come; default: it drops who wrote which field.
	Transform toolscache.TransformFunc
	// LeaderElection makes the controllers wait for the Lease kube-system/kube-controller-manager. Default: false, the
	// controllers run at once.
	LeaderElection bool
	// LeaseDuration is how long a leader which stopped renewing is respected. Default: 15 s.
	LeaseDuration time.Duration
	// Enabled selects controllers like kube-controller-manager's --controllers: "*" is all that are on by default,
	// "name" switches one on and "-name" off; the first item that names a controller wins. Both the name in List and
	// upstream's name are understood. Default: ["*"].
	Enabled []string
	// Concurrency is the number of objects each controller works on at the same time. Default: 5.
	Concurrency int
	// Clock is the source of time. Default: the real clock.
	Clock clock.WithTicker
	// Logger is what controllers log to. Default: klog's.
	Logger logr.Logger
}

// complete checks the configuration and fills in the defaults.
func (c Config) complete() (Config, error) {
	if c.RESTConfig == nil {
		return c, errors.New("controllers: RESTConfig is required")
	}
	if c.ClientFor == nil {
		own := c.RESTConfig
		c.ClientFor = func(string) (*rest.Config, error) { return own, nil }
	}
	if err := c.Settings.Validate(); err != nil {
		return c, fmt.Errorf("controllers: %w", err)
	}
	c.Settings = c.Settings.Completed()
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 15 * time.Second
	}
	if len(c.Enabled) == 0 {
		c.Enabled = []string{"*"}
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 5
	}
	if c.Transform == nil {
		c.Transform = cache.TransformStripManagedFields()
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Logger.GetSink() == nil {
		c.Logger = klog.Background()
	}
	return c, nil
}

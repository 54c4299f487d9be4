// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/plugins"
	"minik8s.io/minik8s/pkg/scheduler/policies"
)

// Config says what the scheduler works with and how.
type Config struct {
	// Client talks to the API with the identity system:kube-scheduler. Required.
	Client kubernetes.Interface
	// KubeConfig is that of Client, for plugins that need clients of their own.
	// Default nil: plugins that need it fail to start.
	KubeConfig *rest.Config
	// Informers may be shared with other parts of the process; NewInformers makes
	// some that keep no more than the scheduler needs. The caller starts them between
	// New, which asks for those it needs, and Start. Required.
	Informers informers.SharedInformerFactory
	// Configuration has the profiles and all that users may set. New takes a copy,
	// fills in the defaults and validates. Without profiles there are default-scheduler
	// and one for each policy.
	Configuration *configv1.KubeSchedulerConfiguration
	// Policy is that of default-scheduler, if Configuration has no profiles. Default:
	// upstream's.
	Policy policies.Policy
	// PodGroups has pods of a PodGroup scheduled together, by the plugin GangScheduling,
	// as upstream's feature gate GenericWorkload does. The API has to serve
	// scheduling.k8s.io/v1beta1. Default: each pod by itself.
	PodGroups bool
	// Registry has plugins that the product does not bring, by name. One of a name
	// that it brings is an error.
	Registry framework.Registry
	// Identity is the holder's name in the Lease. Required with leader election.
	Identity string
	// Seed makes ties between nodes fall the same way each run. Default 0: a random seed.
	Seed uint64
	// Clock is replaced in tests. Default the real one.
	Clock clock.WithTicker
	// Registerer receives the metrics scheduler_*. Default nil: none.
	Registerer prometheus.Registerer
	// Resources receives kube_pod_resource_request and kube_pod_resource_limit, which
	// have a line for each pod. Default nil: none.
	Resources prometheus.Registerer

	initialBackoff time.Duration // for tests, which have no second to lose
}

func (c Config) complete() (Config, error) {
	if c.Client == nil || c.Informers == nil {
		return c, errors.New("scheduler needs a client and informers")
	}
	if c.Configuration == nil {
		c.Configuration = &configv1.KubeSchedulerConfiguration{}
	}
	c.Configuration = c.Configuration.DeepCopy()
	if err := policies.AddProfiles(c.Configuration, c.Policy); err != nil {
		return c, fmt.Errorf("scheduler configuration: %w", err)
	}
	if c.PodGroups {
		configuration.AddGroups(c.Configuration)
	}
	configuration.Default(c.Configuration)
	if err := configuration.Validate(c.Configuration).ToAggregate(); err != nil {
		return c, fmt.Errorf("scheduler configuration: %w", err)
	}
	if c.leads() && c.Identity == "" {
		return c, errors.New("leader election needs an identity")
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Seed == 0 {
		c.Seed = uint64(c.Clock.Now().UnixNano())
	}
	if c.initialBackoff == 0 {
		c.initialBackoff = time.Duration(*c.Configuration.PodInitialBackoffSeconds) * time.Second
	}
	return c, nil
}

// leads tells whether Start waits for the lease.
func (c Config) leads() bool { return *c.Configuration.LeaderElection.LeaderElect }

// registry adds the plugins from outside to ours.
func (c Config) registry() (framework.Registry, error) {
	all := plugins.Registry()
	maps.Copy(all, policies.Registry())
	for name, factory := range c.Registry {
		if _, ok := all[name]; ok {
			return nil, fmt.Errorf("a plugin named %v already exists", name)
		}
		all[name] = factory
	}
	return all, nil
}
